#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/terse.h>

#include "command.h"
#include "common/number.h"
#include "file.h"
#include "message.h"
#include "npy.h"
#include "tensors.h"

static int run(int argc, char **argv);

const struct command cmd_encode = {
    .name = "encode",
    .summary = "encode an NPY vector as a frame",
    .usage = "terse encode IN.npy -o OUT.terse --codec SPEC [options]",
    .help =
        "IN.npy holds float32 numbers of any shape, in C order; '-' is standard input. The frame\n"
        "carries names and shapes, so `terse decode` needs nothing else. A codec of two passes\n"
        "(low-rank) writes two frames, one after the other.\n\n"
        "Options\n"
        "  -o, --output FILE    where the frame goes; '-' is standard output\n"
        "  -c, --codec SPEC     NAME or NAME:key=value,...; see `terse codecs`\n"
        "      --residual FILE  add this NPY vector (the residual of earlier steps) to the input\n"
        "      --take FILE      write the new residual as an NPY vector\n"
        "      --tensor NAME=D1xD2x...   the next tensor of the flat input; repeat. Scales, k and\n"
        "                       blocks are per tensor. Default: one tensor of the input's shape\n"
        "      --name NAME      the name of that one tensor; default none\n"
        "      --seed N --step N --worker N   the random key; default 0\n"
        "      --threads N      default 1; never changes a byte\n\n"
        "Nothing is written unless everything succeeds; files appear complete or not at all.\n\n"
        "Examples\n"
        "  terse encode g.npy -o g.terse --codec topk:keep=0.01\n"
        "  terse encode g1.npy -o 1.terse -c scaled-sign --take left.npy\n"
        "  terse encode g2.npy -o 2.terse -c scaled-sign --residual left.npy --take left.npy\n",
    .run = run,
};

struct request {
    const char *input;
    const char *output;
    const char *spec;
    const char *residual;
    const char *take;
    struct tensors tensors; /* --tensor and --name */
    terse_rng_key key;
    terse_codec_options options;
};

/* The frames of all passes, one after the other. */
struct encoded {
    unsigned char *bytes;
    size_t len;
    size_t payload_len;
};

/* A random key holds worker + 1 in 24 bits. */
static const uint64_t MOST_WORKER = 0xFFFFFE;

enum { SEED = 256, STEP, WORKER, THREADS, RESIDUAL, TAKE, TENSOR, NAME };

static int read_number(const char *option, const char *text, uint64_t low, uint64_t high,
                       uint64_t *out)
{
    if (com_parse_u64(text, low, high, out))
        return CLI_OK;
    return msg_usage("encode", "--%s: '%s' is not a number from %llu to %llu", option, text,
                     (unsigned long long)low, (unsigned long long)high);
}

static int read_option(int letter, const char *value, struct request *request)
{
    uint64_t number;
    int code = CLI_OK;
    switch (letter) {
    case 'o': request->output = value; break;
    case 'c': request->spec = value; break;
    case RESIDUAL: request->residual = value; break;
    case TAKE: request->take = value; break;
    case TENSOR: code = tensors_add(&request->tensors, value); break;
    case NAME: code = tensors_name(&request->tensors, value); break;
    case SEED: code = read_number("seed", value, 0, UINT64_MAX, &request->key.seed); break;
    case STEP: code = read_number("step", value, 0, UINT64_MAX, &request->key.step); break;
    case WORKER:
        code = read_number("worker", value, 0, MOST_WORKER, &number);
        request->key.worker = code == CLI_OK ? (uint32_t)number : 0;
        break;
    case THREADS:
        code = read_number("threads", value, 1, 1024, &number);
        request->options.threads = code == CLI_OK ? (uint32_t)number : 0;
        break;
    default: msg_note("Try 'terse encode --help'."); code = CLI_USAGE;
    }
    return code;
}

static int read_request(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"codec", required_argument, NULL, 'c'},
        {"seed", required_argument, NULL, SEED},
        {"step", required_argument, NULL, STEP},
        {"worker", required_argument, NULL, WORKER},
        {"threads", required_argument, NULL, THREADS},
        {"residual", required_argument, NULL, RESIDUAL},
        {"take", required_argument, NULL, TAKE},
        {"tensor", required_argument, NULL, TENSOR},
        {"name", required_argument, NULL, NAME},
        {NULL, 0, NULL, 0},
    };
    for (int letter; (letter = getopt_long(argc, argv, "o:c:", options, NULL)) != -1;) {
        int code = read_option(letter, optarg, request);
        if (code != CLI_OK)
            return code;
    }
    if (argc - optind != 1) {
        return msg_usage("encode",
                         argc == optind ? "an NPY file is missing" : "one NPY file at a time");
    }
    request->input = argv[optind];
    if (!request->output || !request->spec) {
        return msg_usage("encode",
                         !request->output ? "-o OUT.terse is missing" : "--codec SPEC is missing");
    }
    return CLI_OK;
}

static int add_residual(const char *path, struct npy *input)
{
    struct npy residual;
    int code = npy_read(path, &residual);
    if (code != CLI_OK)
        return code;
    if (residual.count != input->count) {
        code = msg_error(CLI_REFUSED, "'%s' has %s elements, the input %s", path,
                         com_show_count(residual.count).text, com_show_count(input->count).text);
    } else {
        for (uint64_t i = 0; i < input->count; i++)
            input->data[i] += residual.data[i];
    }
    npy_free(&residual);
    return code;
}

/* Encodes one pass as a frame at the end of `frames`. */
static terse_status encode_pass(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                                float *values, struct encoded *frames)
{
    size_t bound = terse_codec_payload_bound(codec, pass);
    size_t frame_cap = terse_frame_len(codec, bound, 1);
    unsigned char *larger = realloc(frames->bytes, frames->len + frame_cap);
    if (!larger)
        return TERSE_NO_MEMORY;
    frames->bytes = larger;
    unsigned char *frame = frames->bytes + frames->len;
    unsigned char *payload = frame + terse_frame_payload_at(codec, 1);
    size_t len;
    terse_status status = terse_codec_encode_take(codec, pass, key, values, payload, bound, &len);
    if (status != TERSE_OK)
        return status;
    size_t frame_len;
    status = terse_frame_seal(codec, pass, key, payload, len, 1, frame, frame_cap, &frame_len);
    if (status != TERSE_OK)
        return status;
    frames->len += frame_len;
    frames->payload_len += len;
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    if (pass + 1 < about.passes) {
        /* The next pass needs the aggregate of this one, here of one worker. decode_add adds
         * nothing to its output in this pass, but requires one. */
        float *aggregate =
            calloc(terse_layout_count(terse_codec_layout(codec)) + 1, sizeof *aggregate);
        if (!aggregate)
            return TERSE_NO_MEMORY;
        status = terse_codec_decode_add(codec, pass, key, payload, len, aggregate, NULL);
        free(aggregate);
    }
    return status;
}

static int encode(struct request *request, const struct npy *input, struct encoded *frames)
{
    terse_layout *layout = NULL;
    int code = tensors_layout(&request->tensors, input->ndim, input->dims, &layout);
    if (code != CLI_OK)
        return code;
    terse_codec *codec;
    terse_fault fault = {0};
    terse_status status =
        terse_codec_create(request->spec, layout, &request->options, &codec, &fault);
    terse_layout_destroy(layout);
    if (status != TERSE_OK) {
        char subject[256];
        snprintf(subject, sizeof subject, "codec '%s'", request->spec);
        return msg_status(subject, status, &fault);
    }
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    for (uint32_t pass = 0; pass < about.passes && status == TERSE_OK; pass++)
        status = encode_pass(codec, pass, &request->key, input->data, frames);
    if (status != TERSE_OK) {
        char subject[512];
        snprintf(subject, sizeof subject, "cannot encode '%s' as %s", request->input,
                 terse_codec_spec(codec));
        code = msg_status(subject, status, NULL);
    } else {
        double dense = (double)input->count * sizeof(float);
        msg_note("%s: %s elements in %s bytes (%s of payload), %.3g bits per element, compression "
                 "ratio %.4g",
                 terse_codec_spec(codec), com_show_count(input->count).text,
                 com_show_count(frames->len).text, com_show_count(frames->payload_len).text,
                 input->count == 0 ? 0 : 8 * (double)frames->payload_len / (double)input->count,
                 frames->payload_len == 0 ? 1 : dense / (double)frames->len);
    }
    terse_codec_destroy(codec);
    return code;
}

/* Frame and residual appear together or not at all, unless the second of two renames fails. */
static int write_results(const struct request *request, const struct npy *kept,
                         const struct encoded *frames)
{
    struct com_output frame = {.fd = -1};
    struct com_output residual = {.fd = -1};
    int code = output_open(&frame, request->output);
    if (code == CLI_OK)
        code = output_write(&frame, frames->bytes, frames->len);
    if (code == CLI_OK && request->take) {
        code = output_open(&residual, request->take);
        if (code == CLI_OK)
            code = npy_write(&residual, kept->ndim, kept->dims, kept->data);
        if (code == CLI_OK)
            code = output_finish(&residual);
    }
    if (code == CLI_OK)
        code = output_finish(&frame);
    if (code == CLI_OK)
        code = output_commit(&frame);
    if (code == CLI_OK && request->take)
        code = output_commit(&residual);
    output_discard(&frame);
    output_discard(&residual);
    return code;
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    struct npy input = {0};
    struct encoded frames = {0};
    int code = read_request(argc, argv, &request);
    if (code == CLI_OK)
        code = npy_read(request.input, &input);
    if (code == CLI_OK && request.residual)
        code = add_residual(request.residual, &input);
    if (code == CLI_OK)
        code = encode(&request, &input, &frames);
    if (code == CLI_OK)
        code = write_results(&request, &input, &frames);
    tensors_free(&request.tensors);
    npy_free(&input);
    free(frames.bytes);
    return code;
}

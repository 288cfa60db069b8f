#include <getopt.h>
#include <stdlib.h>

#include <terse/terse.h>

#include "command.h"
#include "common/number.h"
#include "file.h"
#include "frames.h"
#include "machine.h"
#include "message.h"
#include "npy.h"

static int run(int argc, char **argv);

const struct command cmd_decode = {
    .name = "decode",
    .summary = "turn a frame back into an NPY vector",
    .usage = "terse decode IN.terse -o OUT.npy [--threads N]",
    .help =
        "IN.terse holds one vector: one frame, or one per pass of a codec with several. '-' is\n"
        "standard input. A single tensor keeps its shape; several become one flat vector, in\n"
        "the order that `terse inspect` lists.\n\n"
        "Options\n"
        "  -o, --output FILE   where the vector goes; '-' is standard output\n"
        "      --threads N     default 1; never changes a number\n\n"
        "OUT.npy is written only if every check passes, and appears complete or not at all.\n",
    .run = run,
};

struct request {
    const char *input;
    const char *output;
    terse_codec_options options;
};

static int read_request(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"threads", required_argument, NULL, 't'},
                                            {NULL, 0, NULL, 0}};
    for (int letter; (letter = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        uint64_t threads;
        if (letter == 'o') {
            request->output = optarg;
        } else if (letter == 't') {
            if (!com_parse_u64(optarg, 1, 1024, &threads)) {
                return msg_usage("decode", "--threads: '%s' is not a number from 1 to 1024",
                                 optarg);
            }
            request->options.threads = (uint32_t)threads;
        } else {
            msg_note("Try 'terse decode --help'.");
            return CLI_USAGE;
        }
    }
    if (argc - optind != 1) {
        return msg_usage("decode",
                         argc == optind ? "a file of frames is missing" : "one file at a time");
    }
    request->input = argv[optind];
    return !request->output ? msg_usage("decode", "-o OUT.npy is missing") : CLI_OK;
}

/* The codec of a file's first frame. */
static int codec_of(const struct frames *frames, const terse_frame *first,
                    const terse_codec_options *options, terse_codec **codec)
{
    terse_fault fault = {0};
    if (!first->layout) {
        return msg_error(CLI_REFUSED, "'%s' carries no layout, so its shape is not known",
                         frames->path);
    }
    terse_layout *layout;
    terse_status status = terse_frame_layout(first, &layout, &fault);
    if (status != TERSE_OK)
        return frames_refuse(frames, status, &fault);
    int code = machine_has_room("the vector", (double)first->count * sizeof(float));
    if (code == CLI_OK) {
        status = terse_frame_codec(first, layout, options, codec, &fault);
        code = status == TERSE_OK ? CLI_OK : frames_refuse(frames, status, &fault);
    }
    terse_layout_destroy(layout);
    return code;
}

/* One frame per pass, all of the vector that `first` began, and nothing after them. */
static int decode_passes(struct frames *frames, const terse_frame *first, terse_codec *codec,
                         float *out)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    terse_frame frame = *first;
    size_t start = 0;
    for (uint32_t pass = 0; pass < about.passes; pass++) {
        terse_fault fault = {0};
        terse_status status = TERSE_OK;
        if (pass > 0 && frames->at == frames->len) {
            return msg_error(CLI_REFUSED, "'%s' ends after pass %u of %u", frames->path, pass - 1,
                             about.passes);
        }
        if (pass > 0)
            status = frames_next(frames, &frame, &start, &fault);
        if (status == TERSE_OK && (frame.pass != pass || !frames_same_vector(first, &frame))) {
            return msg_error(CLI_REFUSED,
                             "'%s' is refused: offset %zu: pass %u of step %llu by worker %u, "
                             "where pass %u of step %llu by worker %u is due",
                             frames->path, start, frame.pass, (unsigned long long)frame.step,
                             frame.worker, pass, (unsigned long long)first->step, first->worker);
        }
        if (status == TERSE_OK)
            status = terse_frame_match(&frame, codec, &fault);
        if (status == TERSE_OK)
            status = frames_decode(frames, &frame, codec, out, &fault);
        if (status != TERSE_OK)
            return frames_refuse(frames, status, &fault);
    }
    if (frames->at != frames->len) {
        return msg_error(CLI_REFUSED,
                         "'%s' is refused: offset %zu: bytes after the vector's last frame; "
                         "a file to decode holds one vector",
                         frames->path, frames->at);
    }
    return CLI_OK;
}

static int write_vector(const char *path, const terse_layout *layout, const float *values)
{
    uint64_t flat = terse_layout_count(layout);
    terse_tensor shape = {.ndim = 1, .dims = &flat};
    if (terse_layout_tensors(layout) == 1 && terse_layout_tensor(layout, 0, &shape) != TERSE_OK)
        return msg_error(CLI_MACHINE, "the layout has no tensor 0");
    struct com_output output;
    int code = output_open(&output, path);
    if (code == CLI_OK)
        code = npy_write(&output, shape.ndim, shape.dims, values);
    if (code == CLI_OK)
        code = output_finish(&output);
    if (code == CLI_OK)
        code = output_commit(&output);
    output_discard(&output);
    return code;
}

static int decode_file(struct frames *frames, const struct request *request)
{
    terse_frame first;
    size_t start;
    terse_fault fault = {0};
    terse_status status = frames_next(frames, &first, &start, &fault);
    if (status != TERSE_OK)
        return frames_refuse(frames, status, &fault);
    terse_codec *codec = NULL;
    int code = codec_of(frames, &first, &request->options, &codec);
    if (code != CLI_OK)
        return code;
    const terse_layout *layout = terse_codec_layout(codec);
    float *values = machine_floats(terse_layout_count(layout));
    if (!values) {
        code = msg_error(CLI_MACHINE, "out of memory for %s elements",
                         com_show_count(terse_layout_count(layout)).text);
    }
    if (code == CLI_OK)
        code = decode_passes(frames, &first, codec, values);
    if (code == CLI_OK)
        code = write_vector(request->output, layout, values);
    free(values);
    terse_codec_destroy(codec);
    return code;
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    struct frames frames;
    int code = read_request(argc, argv, &request);
    if (code == CLI_OK)
        code = frames_open(&frames, request.input);
    if (code == CLI_OK) {
        code = decode_file(&frames, &request);
        frames_close(&frames);
    }
    return code;
}

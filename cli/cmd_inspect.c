#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <terse/terse.h>

#include "command.h"
#include "common/json.h"
#include "common/number.h"
#include "frames.h"
#include "inspect.h"
#include "machine.h"
#include "message.h"

static int run(int argc, char **argv);

const struct command cmd_inspect = {
    .name = "inspect",
    .summary = "show and check every frame of a file",
    .usage = "terse inspect FILE [--limit N] [--json]",
    .help = "Prints each frame's fields, tensors and compression ratio, and checks all of it:\n"
            "header, layout, checksum, and the payload by decoding it. A broken rule is reported\n"
            "with its byte offset, and the exit code is 1. '-' is standard input.\n\n"
            "Options\n"
            "  --limit N   do not decode vectors of more elements (64M, 1G); default 64M\n"
            "  --json      print JSON\n",
    .run = run,
};

/* Elements of a vector that is decoded without being asked for: a frame of 100 bytes may announce a
 * vector of any length. */
#define USUAL_LIMIT ((uint64_t)64 << 20)

/* Codecs of several passes keep the decoded aggregate from one frame to the next. */
struct inspection {
    struct frames frames;
    terse_codec *codec;
    terse_frame last;
    uint32_t passes_read; /* of `codec`, for the vector of `last` */
    com_json *list;       /* NULL for text */
    size_t number;
    uint64_t limit; /* elements of the longest vector to decode */
};

static int continues(const struct inspection *in, const terse_frame *frame)
{
    return in->codec && frame->pass > 0 && frame->pass == in->passes_read &&
           frames_same_vector(&in->last, frame);
}

/* Creates the codec for a frame, or keeps the one whose next pass it is. */
static terse_status follow(struct inspection *in, struct finding *found, terse_fault *fault)
{
    if (continues(in, &found->frame))
        return TERSE_OK;
    terse_codec_destroy(in->codec);
    in->codec = NULL;
    in->passes_read = 0;
    return terse_frame_codec(&found->frame, found->layout, NULL, &in->codec, fault);
}

static terse_status check_payload(struct inspection *in, struct finding *found, terse_fault *fault)
{
    const terse_frame *frame = &found->frame;
    terse_status status = follow(in, found, fault);
    if (status == TERSE_OK) {
        found->codec = in->codec;
        status = terse_frame_match(frame, in->codec, fault);
    }
    if (status != TERSE_OK)
        return status;
    in->last = *frame;
    if (frame->pass != in->passes_read) {
        found->payload = "not checked: the frame of the pass before it is missing";
        return TERSE_OK;
    }
    float *out = machine_floats(frame->count);
    if (!out)
        return TERSE_NO_MEMORY;
    status = frames_decode(&in->frames, frame, in->codec, out, fault);
    free(out);
    in->passes_read++;
    found->payload = "sound";
    return status;
}

static terse_status check(struct inspection *in, struct finding *found, terse_fault *fault)
{
    if (!found->frame.layout) {
        found->payload = "not checked: the frame carries no layout";
        return TERSE_OK;
    }
    terse_status status = terse_frame_layout(&found->frame, &found->layout, fault);
    if (status != TERSE_OK)
        return status;
    if (found->frame.count > in->limit) {
        found->payload = "not checked: the vector is longer than --limit";
        return TERSE_OK;
    }
    if ((double)found->frame.count * sizeof(float) > 0.5 * (double)machine_memory()) {
        found->payload = "not checked: the vector is larger than half of this machine's memory";
        return TERSE_OK;
    }
    return check_payload(in, found, fault);
}

static int inspect_next(struct inspection *in)
{
    struct finding found = {.number = in->number++};
    terse_fault fault = {0};
    terse_status status = frames_next(&in->frames, &found.frame, &found.start, &fault);
    if (status == TERSE_OK) {
        found.len = in->frames.at - found.start;
        found.payload_at = (size_t)(found.frame.payload - in->frames.bytes);
        status = check(in, &found, &fault);
    }
    int code = CLI_OK;
    if (status != TERSE_OK) {
        code = frames_refuse(&in->frames, status, &fault);
        if (in->list) {
            com_json *object = com_json_object();
            com_json_put_u64(object, "offset", found.start);
            com_json_put_u64(object, "refused_at", fault.offset);
            com_json_put_text(object, "rule",
                              fault.text[0] != '\0' ? fault.text : terse_status_text(status));
            com_json_append(in->list, object);
        }
    } else if (in->list) {
        com_json_append(in->list, inspect_json(&found));
    } else {
        code = inspect_print(&found);
    }
    terse_layout_destroy(found.layout);
    return code;
}

static int inspect(const char *path, uint64_t limit, int as_json)
{
    struct inspection in = {.list = as_json ? com_json_array() : NULL, .limit = limit};
    int code = frames_open(&in.frames, path);
    while (code == CLI_OK && in.frames.at < in.frames.len)
        code = inspect_next(&in);
    if (as_json) {
        com_json *top = com_json_object();
        com_json_put_flag(top, "sound", code == CLI_OK);
        com_json_put(top, "frames", in.list);
        const int printed = msg_json(top);
        code = code == CLI_OK ? printed : code;
    }
    terse_codec_destroy(in.codec);
    frames_close(&in.frames);
    return code;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {NULL, 0, NULL, 0}};
    uint64_t limit = USUAL_LIMIT;
    int as_json = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter == 'l') {
            if (!com_parse_count(optarg, 0, TERSE_MAX_COUNT, &limit))
                return msg_usage("inspect", "--limit: '%s' is not a number of elements", optarg);
        } else if (letter == 'j') {
            as_json = 1;
        } else {
            msg_note("Try 'terse inspect --help'.");
            return CLI_USAGE;
        }
    }
    if (argc - optind != 1)
        return msg_usage("inspect", argc == optind ? "a file is missing" : "one file at a time");
    return inspect(argv[optind], limit, as_json);
}

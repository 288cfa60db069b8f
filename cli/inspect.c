#include "inspect.h"

#include <stdio.h>

#include "json.h"
#include "say.h"
#include "table.h"

static const char *codec_name(uint8_t wire_id)
{
    terse_codec_about about;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++)
        if (about.wire_id == wire_id)
            return about.name;
    return "unknown";
}

static double times_smaller(const struct finding *found)
{
    return (double)found->frame.count * sizeof(float) / (double)found->len;
}

static double bits(const struct finding *found)
{
    return found->frame.count == 0
               ? 0
               : 8 * (double)found->frame.payload_len / (double)found->frame.count;
}

/* The payload bytes of one tensor where they depend on its shape alone, else 0. */
static size_t section_len(const struct finding *found, const terse_tensor *tensor)
{
    terse_codec_about about;
    if (!found->codec)
        return 0;
    terse_codec_describe(found->codec, &about);
    terse_layout *layout;
    if (!(about.traits & TERSE_CODEC_FIXED_LEN) || terse_layout_create(&layout) != TERSE_OK)
        return 0;
    terse_codec *codec;
    size_t len = 0;
    if (terse_layout_add(layout, "", tensor->ndim, tensor->dims) == TERSE_OK &&
        terse_codec_open(found->frame.codec, found->frame.params, layout, NULL, &codec, NULL) ==
            TERSE_OK) {
        len = terse_codec_payload_bound(codec, found->frame.round);
        terse_codec_destroy(codec);
    }
    terse_layout_destroy(layout);
    return len;
}

static void shape_text(const terse_tensor *tensor, char *out, size_t cap)
{
    size_t at = 0;
    snprintf(out, cap, "scalar");
    for (uint32_t i = 0; i < tensor->ndim && at < cap; i++) {
        at += (size_t)snprintf(out + at, cap - at, "%s%llu", i == 0 ? "" : "x",
                               (unsigned long long)tensor->dims[i]);
    }
}

static int print_tensors(const struct finding *found)
{
    struct table *table = table_create("rlrrrr");
    static const char *const headings[] = {"tensor",   "name",  "shape",
                                           "elements", "first", "payload bytes"};
    for (size_t i = 0; i < 6; i++)
        table_cell(table, "%s", headings[i]);
    terse_tensor tensor;
    for (uint32_t i = 0; i < terse_layout_tensors(found->layout) &&
                         terse_layout_tensor(found->layout, i, &tensor) == TERSE_OK;
         i++) {
        char shape[192];
        shape_text(&tensor, shape, sizeof shape);
        size_t len = section_len(found, &tensor);
        table_cell(table, "%u", i);
        table_cell(table, "%s", tensor.name[0] == '\0' ? "(no name)" : tensor.name);
        table_cell(table, "%s", shape);
        table_cell(table, "%s", say_count(tensor.count));
        table_cell(table, "%s", say_count(tensor.offset));
        table_cell(table, "%s", len > 0 ? say_count(len) : "-");
    }
    return table_print(table, 2);
}

int inspect_print(const struct finding *found)
{
    const terse_frame *frame = &found->frame;
    printf("%s%sframe %zu%s at offset %zu, %s bytes\n", found->number > 0 ? "\n" : "",
           say_bold(stdout), found->number, say_plain(stdout), found->start, say_count(found->len));
    printf("  version      %u\n", TERSE_FRAME_VERSION);
    printf("  codec        %u, %s\n", frame->codec,
           found->codec ? terse_codec_spec(found->codec) : codec_name(frame->codec));
    printf("  round        %u\n", frame->round);
    printf("  step         %llu\n", (unsigned long long)frame->step);
    printf("  worker       %u\n", frame->worker);
    printf("  seed         %llu\n", (unsigned long long)frame->seed);
    printf("  elements     %s, from number %s on\n", say_count(frame->count),
           say_count(frame->first));
    printf("  layout       hash %016llx, %s\n", (unsigned long long)frame->layout_hash,
           frame->layout ? "included" : "not included");
    printf("  payload      %s bytes at offset %zu, %.4g bits per element\n",
           say_count(frame->payload_len), found->payload_at, bits(found));
    printf("  smaller      %.4g times, frame against float32\n", times_smaller(found));
    printf("  checks       header sound, checksum sound, payload %s\n", found->payload);
    return found->layout ? print_tensors(found) : CLI_OK;
}

static struct json *tensors_json(const struct finding *found)
{
    struct json *list = json_array();
    terse_tensor tensor;
    for (uint32_t i = 0; i < terse_layout_tensors(found->layout) &&
                         terse_layout_tensor(found->layout, i, &tensor) == TERSE_OK;
         i++) {
        struct json *object = json_object();
        json_put_text(object, "name", tensor.name);
        struct json *shape = json_array();
        for (uint32_t d = 0; d < tensor.ndim; d++)
            json_append_u64(shape, tensor.dims[d]);
        json_put(object, "shape", shape);
        json_put_u64(object, "count", tensor.count);
        json_put_u64(object, "offset", tensor.offset);
        size_t len = section_len(found, &tensor);
        if (len > 0)
            json_put_u64(object, "payload_bytes", len);
        json_append(list, object);
    }
    return list;
}

struct json *inspect_json(const struct finding *found)
{
    const terse_frame *frame = &found->frame;
    struct json *object = json_object();
    json_put_u64(object, "offset", found->start);
    json_put_u64(object, "bytes", found->len);
    json_put_u64(object, "version", TERSE_FRAME_VERSION);
    json_put_u64(object, "wire_id", frame->codec);
    json_put_text(object, "codec", codec_name(frame->codec));
    if (found->codec)
        json_put_text(object, "spec", terse_codec_spec(found->codec));
    json_put_u64(object, "round", frame->round);
    json_put_u64(object, "step", frame->step);
    json_put_u64(object, "worker", frame->worker);
    json_put_u64(object, "seed", frame->seed);
    json_put_u64(object, "first", frame->first);
    json_put_u64(object, "count", frame->count);
    json_put_hex(object, "layout_hash", frame->layout_hash);
    json_put_flag(object, "layout_included", frame->layout != NULL);
    json_put_u64(object, "payload_bytes", frame->payload_len);
    json_put_real(object, "bits_per_element", bits(found));
    json_put_real(object, "times_smaller", times_smaller(found));
    json_put_text(object, "payload", found->payload);
    if (found->layout)
        json_put(object, "tensors", tensors_json(found));
    return object;
}

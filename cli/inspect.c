#include "inspect.h"

#include <stdio.h>

#include "common/json.h"
#include "common/number.h"
#include "message.h"
#include "table.h"

static const char *codec_name(uint8_t wire_id)
{
    terse_codec_about about;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++)
        if (about.wire_id == wire_id)
            return about.name;
    return "unknown";
}

static double compression_ratio(const struct finding *found)
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
static size_t section_len(const struct finding *found, uint32_t tensor)
{
    terse_codec_about about;
    if (!found->codec)
        return 0;
    terse_codec_describe(found->codec, &about);
    return about.traits & TERSE_CODEC_FIXED_LEN
               ? terse_codec_section_bound(found->codec, found->frame.pass, tensor)
               : 0;
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
        size_t len = section_len(found, i);
        table_cell(table, "%u", i);
        table_cell(table, "%s", tensor.name[0] == '\0' ? "(no name)" : tensor.name);
        table_cell(table, "%s", shape);
        table_cell(table, "%s", com_show_count(tensor.count).text);
        table_cell(table, "%s", com_show_count(tensor.offset).text);
        table_cell(table, "%s", len > 0 ? com_show_count(len).text : "-");
    }
    return table_print(table, 2);
}

int inspect_print(const struct finding *found)
{
    const terse_frame *frame = &found->frame;
    printf("%s%sframe %zu%s at offset %zu, %s bytes\n", found->number > 0 ? "\n" : "",
           msg_bold(stdout), found->number, msg_plain(stdout), found->start,
           com_show_count(found->len).text);
    printf("  version      %u\n", TERSE_FRAME_VERSION);
    printf("  codec        %u, %s\n", frame->codec,
           found->codec ? terse_codec_spec(found->codec) : codec_name(frame->codec));
    printf("  pass         %u\n", frame->pass);
    printf("  step         %llu\n", (unsigned long long)frame->step);
    printf("  worker       %u\n", frame->worker);
    printf("  seed         %llu\n", (unsigned long long)frame->seed);
    printf("  elements     %s, from number %s on\n", com_show_count(frame->count).text,
           com_show_count(frame->first).text);
    printf("  layout       hash %016llx, %s\n", (unsigned long long)frame->layout_hash,
           frame->layout ? "included" : "not included");
    printf("  payload      %s bytes at offset %zu, %.4g bits per element\n",
           com_show_count(frame->payload_len).text, found->payload_at, bits(found));
    printf("  ratio        %.4g, float32 against the frame\n", compression_ratio(found));
    printf("  checks       header sound, checksum sound, payload %s\n", found->payload);
    return found->layout ? print_tensors(found) : CLI_OK;
}

static com_json *tensors_json(const struct finding *found)
{
    com_json *list = com_json_array();
    terse_tensor tensor;
    for (uint32_t i = 0; i < terse_layout_tensors(found->layout) &&
                         terse_layout_tensor(found->layout, i, &tensor) == TERSE_OK;
         i++) {
        com_json *object = com_json_object();
        com_json_put_text(object, "name", tensor.name);
        com_json *shape = com_json_array();
        for (uint32_t d = 0; d < tensor.ndim; d++)
            com_json_append_u64(shape, tensor.dims[d]);
        com_json_put(object, "shape", shape);
        com_json_put_u64(object, "count", tensor.count);
        com_json_put_u64(object, "offset", tensor.offset);
        size_t len = section_len(found, i);
        if (len > 0)
            com_json_put_u64(object, "payload_bytes", len);
        com_json_append(list, object);
    }
    return list;
}

com_json *inspect_json(const struct finding *found)
{
    const terse_frame *frame = &found->frame;
    com_json *object = com_json_object();
    com_json_put_u64(object, "offset", found->start);
    com_json_put_u64(object, "bytes", found->len);
    com_json_put_u64(object, "version", TERSE_FRAME_VERSION);
    com_json_put_u64(object, "wire_id", frame->codec);
    com_json_put_text(object, "codec", codec_name(frame->codec));
    if (found->codec)
        com_json_put_text(object, "spec", terse_codec_spec(found->codec));
    com_json_put_u64(object, "pass", frame->pass);
    com_json_put_u64(object, "step", frame->step);
    com_json_put_u64(object, "worker", frame->worker);
    com_json_put_u64(object, "seed", frame->seed);
    com_json_put_u64(object, "first", frame->first);
    com_json_put_u64(object, "count", frame->count);
    com_json_put_hex(object, "layout_hash", frame->layout_hash);
    com_json_put_flag(object, "layout_included", frame->layout != NULL);
    com_json_put_u64(object, "payload_bytes", frame->payload_len);
    com_json_put_real(object, "bits_per_element", bits(found));
    com_json_put_real(object, "compression_ratio", compression_ratio(found));
    com_json_put_text(object, "payload", found->payload);
    if (found->layout)
        com_json_put(object, "tensors", tensors_json(found));
    return object;
}

/* The only file that uses cJSON. `struct com_json` is its cJSON under another name.
 * An object that could not take a value becomes invalid, and an invalid item cannot be printed:
 * in this way a lack of memory is remembered. */
#include "common/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/file.h"
#include "common/output.h"
#include "common/utf8.h"

#define MOST_EXACT 9007199254740992.0 /* 2^53: doubles hold every integer up to it */

static cJSON *inner(com_json *json)
{
    return (cJSON *)json;
}

static const cJSON *look(const com_json *json)
{
    return (const cJSON *)json;
}

com_json *com_json_object(void)
{
    return (com_json *)cJSON_CreateObject();
}

com_json *com_json_array(void)
{
    return (com_json *)cJSON_CreateArray();
}

void com_json_free(com_json *json)
{
    cJSON_Delete(inner(json));
}

static void put(com_json *object, const char *key, cJSON *value)
{
    if (cJSON_AddItemToObject(inner(object), key, value))
        return;
    cJSON_Delete(value);
    if (object)
        inner(object)->type = cJSON_Invalid;
}

static void append(com_json *array, cJSON *value)
{
    if (cJSON_AddItemToArray(inner(array), value))
        return;
    cJSON_Delete(value);
    if (array)
        inner(array)->type = cJSON_Invalid;
}

static cJSON *real(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

/* cJSON's numbers are doubles, which hold 53 bits: the digits are stored as text. */
static cJSON *exact(uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_CreateRaw(digits);
}

static cJSON *readable(const char *text)
{
    cJSON *const item = cJSON_CreateString(text);
    for (char *at = item ? item->valuestring : NULL; at && *at;) {
        const size_t len = com_utf8_len(at);
        if (len == 0)
            *at = '?';
        at += len + (len == 0);
    }
    return item;
}

void com_json_put_text(com_json *object, const char *key, const char *text)
{
    put(object, key, readable(text));
}

void com_json_put_real(com_json *object, const char *key, double value)
{
    put(object, key, real(value));
}

void com_json_put_u64(com_json *object, const char *key, uint64_t value)
{
    put(object, key, exact(value));
}

void com_json_put_hex(com_json *object, const char *key, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "0x%016llx", (unsigned long long)value);
    put(object, key, cJSON_CreateString(digits));
}

void com_json_put_flag(com_json *object, const char *key, int value)
{
    put(object, key, cJSON_CreateBool(value != 0));
}

void com_json_put(com_json *object, const char *key, com_json *value)
{
    put(object, key, inner(value));
}

void com_json_append(com_json *array, com_json *value)
{
    append(array, inner(value));
}

void com_json_append_real(com_json *array, double value)
{
    append(array, real(value));
}

void com_json_append_u64(com_json *array, uint64_t value)
{
    append(array, exact(value));
}

void com_json_append_text(com_json *array, const char *text)
{
    append(array, readable(text));
}

terse_status com_json_print(const com_json *json, int indented, char **text, terse_fault *fault)
{
    char *made = indented ? cJSON_Print(look(json)) : cJSON_PrintUnformatted(look(json));
    if (!made)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to write JSON");
    *text = made;
    return TERSE_OK;
}

terse_status com_json_write(const char *path, const com_json *json, terse_fault *fault)
{
    struct com_output output;
    char *text;
    terse_status status = com_json_print(json, 1, &text, fault);
    if (status != TERSE_OK)
        return status;
    status = com_output_open(&output, path, fault);
    if (status == TERSE_OK) {
        status = com_output_write(&output, text, strlen(text), fault);
        if (status == TERSE_OK)
            status = com_output_write(&output, "\n", 1, fault);
        if (status == TERSE_OK)
            status = com_output_commit(&output, fault);
        com_output_discard(&output);
    }
    free(text);
    return status;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first key that an object has twice, NULL if none; *no_memory: the check ran out of memory. */
static const char *twice(const cJSON *object, int *no_memory)
{
    const size_t count = (size_t)cJSON_GetArraySize(object);
    const char **keys = malloc((count + 1) * sizeof *keys);
    const char *found = NULL;
    const cJSON *item;
    size_t i = 0;
    *no_memory = !keys;
    if (!keys)
        return NULL;
    cJSON_ArrayForEach(item, object) keys[i++] = item->string;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (i = 1; i < count && !found; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            found = keys[i];
    free(keys);
    return found;
}

/* Objects within objects too; cJSON has limited the depth to 1000. */
static terse_status check_keys(const char *name, const cJSON *item, terse_fault *fault)
{
    const cJSON *child;
    if (cJSON_IsObject(item)) {
        int no_memory;
        const char *key = twice(item, &no_memory);
        if (no_memory)
            return com_fail(fault, TERSE_NO_MEMORY, "no memory to read JSON");
        if (key)
            return com_refuse(fault, COM_BAD_FILE, name, 0, "JSON: the key '%.40s' is given twice",
                              key);
    }
    cJSON_ArrayForEach(child, item)
    {
        const terse_status status = check_keys(name, child, fault);
        if (status != TERSE_OK)
            return status;
    }
    return TERSE_OK;
}

static int is_space(const char *at, const char *end)
{
    for (; at < end; at++)
        if (*at != ' ' && *at != '\t' && *at != '\r' && *at != '\n')
            return 0;
    return 1;
}

terse_status com_json_parse(const char *name, const void *bytes, size_t len, com_json **out,
                            terse_fault *fault)
{
    const char *text = bytes;
    const char *end = text;
    if (len == 0)
        return com_refuse(fault, COM_BAD_FILE, name, 0, "not JSON: empty");
    if (memchr(bytes, 0, len))
        return com_refuse(fault, COM_BAD_FILE, name, 0, "not JSON: it has a zero byte");
    cJSON *json = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (!json)
        return com_refuse(fault, COM_BAD_FILE, name, (uint64_t)(end - text), "not valid JSON");
    terse_status status = check_keys(name, json, fault);
    if (status == TERSE_OK && !is_space(end, text + len))
        status = com_refuse(fault, COM_BAD_FILE, name, (uint64_t)(end - text),
                            "bytes after the JSON value");
    if (status != TERSE_OK) {
        cJSON_Delete(json);
        return status;
    }
    *out = (com_json *)json;
    return TERSE_OK;
}

terse_status com_json_read(const char *path, com_json **out, terse_fault *fault)
{
    uint8_t *bytes;
    size_t len;
    terse_status status = com_file_read(path, &bytes, &len, fault);
    if (status != TERSE_OK)
        return status;
    status = com_json_parse(path, bytes, len, out, fault);
    free(bytes);
    return status;
}

const com_json *com_json_get(const com_json *object, const char *key)
{
    return (const com_json *)cJSON_GetObjectItemCaseSensitive(look(object), key);
}

int com_json_get_text(const com_json *object, const char *key, const char **out)
{
    const char *text = com_json_text(com_json_get(object, key));
    if (text)
        *out = text;
    return text != NULL;
}

int com_json_get_real(const com_json *object, const char *key, double *out)
{
    return com_json_real(com_json_get(object, key), out);
}

int com_json_get_u64(const com_json *object, const char *key, uint64_t *out)
{
    return com_json_u64(com_json_get(object, key), out);
}

int com_json_get_flag(const com_json *object, const char *key, int *out)
{
    const cJSON *item = look(com_json_get(object, key));
    if (!cJSON_IsBool(item))
        return 0;
    *out = cJSON_IsTrue(item) != 0;
    return 1;
}

int com_json_is_object(const com_json *json)
{
    return cJSON_IsObject(look(json)) != 0;
}

int com_json_is_array(const com_json *json)
{
    return cJSON_IsArray(look(json)) != 0;
}

int com_json_is_null(const com_json *json)
{
    return cJSON_IsNull(look(json)) != 0;
}

int com_json_is_number(const com_json *json)
{
    return cJSON_IsNumber(look(json)) != 0;
}

size_t com_json_count(const com_json *json)
{
    return (size_t)cJSON_GetArraySize(look(json));
}

const com_json *com_json_first(const com_json *json)
{
    return json ? (const com_json *)look(json)->child : NULL;
}

const com_json *com_json_next(const com_json *item)
{
    return (const com_json *)look(item)->next;
}

const char *com_json_key(const com_json *item)
{
    return look(item)->string;
}

const char *com_json_text(const com_json *item)
{
    return cJSON_GetStringValue(look(item));
}

int com_json_real(const com_json *item, double *out)
{
    if (!cJSON_IsNumber(look(item)) || !isfinite(look(item)->valuedouble))
        return 0;
    *out = look(item)->valuedouble;
    return 1;
}

static int hex_u64(const char *text, uint64_t *out)
{
    char *end;
    if (text[0] != '0' || text[1] != 'x' ||
        strspn(text + 2, "0123456789abcdef") != strlen(text + 2))
        return 0;
    errno = 0;
    const unsigned long long value = strtoull(text + 2, &end, 16);
    if (errno != 0 || *end != '\0' || end == text + 2)
        return 0;
    *out = value;
    return 1;
}

int com_json_u64(const com_json *item, uint64_t *out)
{
    const char *text = com_json_text(item);
    if (text)
        return hex_u64(text, out);
    if (cJSON_IsRaw(
            look(item))) { /* digits of com_json_put_u64, in an object that was not parsed */
        *out = strtoull(look(item)->valuestring, NULL, 10);
        return 1;
    }
    if (!cJSON_IsNumber(look(item)))
        return 0;
    const double value = look(item)->valuedouble;
    if (!(value >= 0 && value <= MOST_EXACT) || value != floor(value))
        return 0;
    *out = (uint64_t)value;
    return 1;
}

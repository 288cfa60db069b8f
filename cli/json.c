/* The one place that knows cJSON. `struct json` is its cJSON under another name. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "say.h"

static void *must(void *made)
{
    if (!made)
        exit(say_error(CLI_MACHINE, "out of memory"));
    return made;
}

static void put(struct json *object, const char *key, cJSON *value)
{
    if (!cJSON_AddItemToObject((cJSON *)object, key, must(value)))
        must(NULL);
}

/* cJSON's numbers are doubles, which hold 53 bits: the digits go in as they are. */
static cJSON *exact(uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_CreateRaw(digits);
}

struct json *json_object(void)
{
    return must(cJSON_CreateObject());
}

struct json *json_array(void)
{
    return must(cJSON_CreateArray());
}

/* The bytes of the UTF-8 character at `text`, or 0 if it is none. */
static size_t character_len(const char *text)
{
    unsigned char first = (unsigned char)text[0];
    size_t len = first < 0x80   ? 1
                 : first < 0xC2 ? 0
                 : first < 0xE0 ? 2
                 : first < 0xF0 ? 3
                 : first < 0xF5 ? 4
                                : 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

/* Names in a frame are bytes; what is not UTF-8 in them would make the JSON unreadable. */
static cJSON *readable(const char *text)
{
    char *copy = must(strdup(text));
    for (char *at = copy; *at != '\0';) {
        size_t len = character_len(at);
        if (len == 0) {
            *at = '?';
            len = 1;
        }
        at += len;
    }
    cJSON *value = cJSON_CreateString(copy);
    free(copy);
    return value;
}

void json_put_text(struct json *object, const char *key, const char *text)
{
    put(object, key, readable(text));
}

void json_put_real(struct json *object, const char *key, double value)
{
    put(object, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

void json_put_u64(struct json *object, const char *key, uint64_t value)
{
    put(object, key, exact(value));
}

void json_put_hex(struct json *object, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "0x%016llx", (unsigned long long)value);
    put(object, key, cJSON_CreateString(digits));
}

void json_put_flag(struct json *object, const char *key, int value)
{
    put(object, key, cJSON_CreateBool(value != 0));
}

void json_put(struct json *object, const char *key, struct json *value)
{
    put(object, key, (cJSON *)value);
}

void json_append(struct json *array, struct json *value)
{
    if (!cJSON_AddItemToArray((cJSON *)array, must(value)))
        must(NULL);
}

void json_append_text(struct json *array, const char *text)
{
    json_append(array, must(readable(text)));
}

void json_append_real(struct json *array, double value)
{
    json_append(array, must(isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull()));
}

void json_append_u64(struct json *array, uint64_t value)
{
    json_append(array, must(exact(value)));
}

void json_print(struct json *value)
{
    char *text = must(cJSON_Print((cJSON *)value));
    puts(text);
    cJSON_free(text);
    json_free(value);
}

void json_free(struct json *value)
{
    cJSON_Delete((cJSON *)value);
}

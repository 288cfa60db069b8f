/* JSON of results, run.json, metrics and settings. Only json.c uses cJSON.
 *
 * Writing: put functions return nothing. If memory runs out the object becomes invalid, and
 * com_json_print fails; all functions accept NULL objects. So a caller puts all values and checks
 * once. */
#ifndef COM_JSON_H
#define COM_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"

typedef struct com_json com_json;

com_json *com_json_object(void);
com_json *com_json_array(void);
void com_json_free(com_json *json); /* NULL is fine */

/* Bytes of a text that are not UTF-8 become '?': names in a frame are bytes, and JSON must be
 * valid.
 */
void com_json_put_text(com_json *object, const char *key, const char *text);
void com_json_put_real(com_json *object, const char *key, double value);  /* null if not finite */
void com_json_put_u64(com_json *object, const char *key, uint64_t value); /* all digits */
void com_json_put_hex(com_json *object, const char *key, uint64_t value); /* "0x..." */
void com_json_put_flag(com_json *object, const char *key, int value);
void com_json_put(com_json *object, const char *key, com_json *value); /* owns `value` then */
void com_json_append(com_json *array, com_json *value);                /* owns `value` then */
void com_json_append_real(com_json *array, double value);
void com_json_append_u64(com_json *array, uint64_t value);
void com_json_append_text(com_json *array, const char *text);

/* One line without a line end, or indented; the caller frees *text. */
TERSE_CHECK terse_status com_json_print(const com_json *json, int indented, char **text,
                                        terse_fault *fault);
/* Atomic, indented, ends with a line end. */
TERSE_CHECK terse_status com_json_write(const char *path, const com_json *json, terse_fault *fault);

/* Parses `len` bytes, which must be exactly one JSON value (with white space around it). `name` is
 * for messages. An object that has a key twice is refused. */
TERSE_CHECK terse_status com_json_parse(const char *name, const void *bytes, size_t len,
                                        com_json **out, terse_fault *fault);
TERSE_CHECK terse_status com_json_read(const char *path, com_json **out, terse_fault *fault);

/* 1 and *out, or 0 when the key is absent or of another kind. Keys are exact. */
int com_json_get_text(const com_json *object, const char *key, const char **out);
int com_json_get_real(const com_json *object, const char *key, double *out);
/* An integer 0 .. 2^53, or a text as com_json_put_hex writes it: any 64 bits. */
int com_json_get_u64(const com_json *object, const char *key, uint64_t *out);
int com_json_get_flag(const com_json *object, const char *key, int *out);
const com_json *com_json_get(const com_json *object, const char *key); /* NULL if absent */

/* Walking: for (item = com_json_first(x); item; item = com_json_next(item)). */
int com_json_is_object(const com_json *json);
int com_json_is_array(const com_json *json);
int com_json_is_null(const com_json *json);
int com_json_is_number(const com_json *json);
size_t com_json_count(const com_json *json); /* items of an array or object */
const com_json *com_json_first(const com_json *json);
const com_json *com_json_next(const com_json *item);
const char *com_json_key(const com_json *item); /* NULL in an array */
/* The item's own value. */
int com_json_real(const com_json *item, double *out); /* a finite number */
int com_json_u64(const com_json *item, uint64_t *out);
const char *com_json_text(const com_json *item); /* NULL if it is not a text */

#endif

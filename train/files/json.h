/* JSON for run.json, metrics and settings. The one place that knows cJSON is json.c.
 *
 * Writing: put functions never fail one by one. Where memory ran out the object is spoilt, and
 * trn_json_print says so; NULL objects are taken everywhere. So a caller writes down what it has to
 * say and checks once. */
#ifndef TRN_JSON_H
#define TRN_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "files/fault.h"

typedef struct trn_json trn_json;

trn_json *trn_json_object(void);
trn_json *trn_json_array(void);
void trn_json_free(trn_json *json); /* NULL is fine */

void trn_json_put_text(trn_json *object, const char *key, const char *text);
void trn_json_put_real(trn_json *object, const char *key, double value);  /* null if not finite */
void trn_json_put_u64(trn_json *object, const char *key, uint64_t value); /* all digits */
void trn_json_put_hex(trn_json *object, const char *key, uint64_t value); /* "0x..." */
void trn_json_put_flag(trn_json *object, const char *key, int value);
void trn_json_put(trn_json *object, const char *key, trn_json *value); /* takes it over */
void trn_json_append(trn_json *array, trn_json *value);                /* takes it over */
void trn_json_append_real(trn_json *array, double value);
void trn_json_append_text(trn_json *array, const char *text);

/* One line without a line end, or indented; the caller frees *text. */
TERSE_CHECK terse_status trn_json_print(const trn_json *json, int indented, char **text,
                                        terse_fault *fault);
/* Atomic, indented, ends with a line end. */
TERSE_CHECK terse_status trn_json_write(const char *path, const trn_json *json, terse_fault *fault);

/* Exactly one JSON value fills `len` bytes (space around it is fine). `name` is for messages.
 * An object that has a key twice is refused. */
TERSE_CHECK terse_status trn_json_parse(const char *name, const void *bytes, size_t len,
                                        trn_json **out, terse_fault *fault);
TERSE_CHECK terse_status trn_json_read(const char *path, trn_json **out, terse_fault *fault);

/* 1 and *out, or 0 when the key is absent or of another kind. Keys are exact. */
int trn_json_get_text(const trn_json *object, const char *key, const char **out);
int trn_json_get_real(const trn_json *object, const char *key, double *out);
/* An integer 0 .. 2^53, or a text as trn_json_put_hex writes it: any 64 bits. */
int trn_json_get_u64(const trn_json *object, const char *key, uint64_t *out);
int trn_json_get_flag(const trn_json *object, const char *key, int *out);
const trn_json *trn_json_get(const trn_json *object, const char *key); /* NULL if absent */

/* Walking: for (item = trn_json_first(x); item; item = trn_json_next(item)). */
int trn_json_is_object(const trn_json *json);
int trn_json_is_array(const trn_json *json);
const trn_json *trn_json_first(const trn_json *json);
const trn_json *trn_json_next(const trn_json *item);
const char *trn_json_key(const trn_json *item); /* NULL in an array */
/* The item's own value. */
int trn_json_u64(const trn_json *item, uint64_t *out);
const char *trn_json_text(const trn_json *item); /* NULL if it is no text */

#endif

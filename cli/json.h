/* JSON for programs: build a value, print it. Running out of memory ends the command (exit 3), so
 * nothing here can fail otherwise. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdint.h>

struct json;

struct json *json_object(void);
struct json *json_array(void);

void json_put_text(struct json *object, const char *key, const char *text);
void json_put_real(struct json *object, const char *key, double value);  /* null if not finite */
void json_put_u64(struct json *object, const char *key, uint64_t value); /* all digits */
void json_put_hex(struct json *object, const char *key, uint64_t value); /* "0x..." */
void json_put_flag(struct json *object, const char *key, int value);

/* `value` belongs to the container afterwards. */
void json_put(struct json *object, const char *key, struct json *value);
void json_append(struct json *array, struct json *value);
void json_append_text(struct json *array, const char *text);
void json_append_real(struct json *array, double value); /* null if not finite */
void json_append_u64(struct json *array, uint64_t value);

/* Prints to standard output with a closing newline, and frees the value. */
void json_print(struct json *value);
void json_free(struct json *value);

#endif

/* Says a gradient in few bytes, hears it again, and shows that said + kept = given. */
#include <stdio.h>

#include <terse/terse.h>

int main(void)
{
    const float given[8] = {0.1f, -3, 0.2f, 5, 0, -0.4f, 1, 2};
    float memory[8], heard[8] = {0};
    unsigned char payload[64];
    size_t len = 0;
    terse_rng_key key = {.seed = 1, .step = 0, .worker = 0};
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    terse_fault fault = {0};

    for (int i = 0; i < 8; i++)
        memory[i] = given[i]; /* later steps add: what was left unsaid is still in there */

    terse_status status = terse_layout_vector(8, &layout);
    if (!status)
        status = terse_codec_create("topk:keep=0.25", layout, NULL, &codec, &fault);
    if (!status) /* the sender */
        status = terse_codec_encode_take(codec, 0, &key, memory, payload, sizeof payload, &len);
    if (!status) /* the receiver */
        status = terse_codec_decode_add(codec, 0, &key, payload, len, heard, &fault);

    if (status)
        fprintf(stderr, "roundtrip: %s %s\n", terse_status_text(status), fault.text);
    else
        printf("8 floats (32 bytes) in %zu bytes\n", len);
    for (int i = 0; !status && i < 8; i++) /* what is wholly said leaves -0: -0 + x is x */
        printf("given %4.1f  said %4.1f  kept %4.1f\n", (double)given[i], (double)heard[i],
               (double)memory[i]);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
    return status ? 1 : 0;
}

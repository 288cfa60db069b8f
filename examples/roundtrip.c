/* Encodes a gradient, decodes it, and shows that decoded + residual = input. */
#include <stdio.h>

#include <terse/terse.h>

int main(void)
{
    const float input[8] = {0.1f, -3, 0.2f, 5, 0, -0.4f, 1, 2};
    float residual[8], decoded[8] = {0};
    unsigned char payload[64];
    size_t len = 0;
    terse_rng_key key = {.seed = 1, .step = 0, .worker = 0};
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    terse_fault fault = {0};

    for (int i = 0; i < 8; i++)
        residual[i] = input[i]; /* later steps add: the residual holds what was not sent */

    terse_status status = terse_layout_vector(8, &layout);
    if (!status)
        status = terse_codec_create("topk:keep=0.25", layout, NULL, &codec, &fault);
    if (!status) /* the sender */
        status = terse_codec_encode_take(codec, 0, &key, residual, payload, sizeof payload, &len);
    if (!status) /* the receiver */
        status = terse_codec_decode_add(codec, 0, &key, payload, len, decoded, &fault);

    if (status)
        fprintf(stderr, "roundtrip: %s %s\n", terse_status_text(status), fault.text);
    else
        printf("8 floats (32 bytes) in %zu bytes\n", len);
    for (int i = 0; !status && i < 8; i++) /* an element sent in full leaves -0: -0 + x is x */
        printf("input %4.1f  decoded %4.1f  residual %4.1f\n", (double)input[i], (double)decoded[i],
               (double)residual[i]);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
    return status ? 1 : 0;
}

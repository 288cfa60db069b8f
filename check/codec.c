/* The list of promises, and who claims which. */
#include <stddef.h>

#include "check/promises.h"

static const struct {
    const char *promise;
    const char *meaning;
    uint32_t traits; /* claimed by a codec that has one of them; 0: by every codec */
    chk_promise *check;
} promises[] = {
    {"length", "payloads are as long as the bound says, and nothing else is written", 0,
     chk_length},
    {"conservation", "decoded + residual = input", 0, chk_conservation},
    {"selection", "an element is encoded whole or not at all", TERSE_CODEC_SELECTING,
     chk_selection},
    {"one payload", "encode gives the bytes of encode_take and changes nothing", 0,
     chk_one_payload},
    {"sameness", "the same key gives the same bits, with any threads and kernel set", 0,
     chk_sameness},
    {"concurrency", "workers in threads do not disturb each other", 0, chk_concurrency},
    {"contraction", "the residual is not larger than the input", TERSE_CODEC_CONTRACTIVE,
     chk_contraction},
    {"unbiasedness", "the mean over random keys is the input", TERSE_CODEC_UNBIASED,
     chk_unbiasedness},
    {"additivity", "the sum of payloads is the payload of the sum", TERSE_CODEC_ADDITIVE,
     chk_additivity},
    {"zeros", "zeros stay zeros", TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED, chk_zeros},
    {"finiteness", "NaN and infinity are refused, and nothing is lost", 0, chk_finiteness},
    {"damage", "damaged payloads are refused or decode within the output", 0, chk_damage},
    {"spec", "text and option bytes name the same codec", 0, chk_spec},
};

terse_status chk_codec(const struct chk_settings *settings, chk_watch *watch, void *context,
                       uint32_t *broken, terse_fault *fault)
{
    uint32_t found = 0;
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        struct chk_finding finding = {.promise = promises[i].promise,
                                      .meaning = promises[i].meaning,
                                      .verdict = CHK_NOT_CLAIMED};
        struct chk_subject subject;
        const terse_status status = chk_subject_create(settings, 1, &subject, fault);
        if (status != TERSE_OK)
            return status;
        if (promises[i].traits == 0 || promises[i].traits & subject.about.traits)
            finding.verdict = promises[i].check(&subject, &finding) ? CHK_HOLDS : CHK_BROKEN;
        chk_subject_destroy(&subject);
        found += finding.verdict == CHK_BROKEN;
        watch(context, &finding);
        if (finding.verdict == CHK_BROKEN && promises[i].check == chk_length)
            break; /* all others need payloads */
    }
    *broken = found;
    return TERSE_OK;
}

/* --method auto: the fastest of several methods, measured in the training itself.
 *
 * A candidate makes some steps of the real training over a copy of the weights, and everything is
 * put back: the training that follows is that of the chosen method, bit for bit. All ranks have
 * the times of all, so they choose alike. */
#ifndef TRN_AUTO_H
#define TRN_AUTO_H

#include "loop/worker.h"

#define TRN_MOST_CANDIDATES 16u

/* "auto:every=1000,methods=SPEC;SPEC": the first candidate is the one to beat. */
struct trn_auto_words {
    char options[TERSE_MAX_METHOD_SPEC]; /* for every candidate: the words that are neither */
    uint64_t every;                      /* steps between measurements; 0: only before the first */
    uint32_t count;                      /* of methods; 0: none are listed */
    char method[TRN_MOST_CANDIDATES][TERSE_MAX_METHOD_SPEC];
};

int trn_is_auto(const char *text);

/* Only the words are read, the specs in them are not. TERSE_BAD_SPEC: what is wrong. */
TERSE_CHECK terse_status trn_auto_parse(const char *text, struct trn_auto_words *out,
                                        terse_fault *fault);
/* The text of words without options. TERSE_TOO_SMALL: `cap` is. */
TERSE_CHECK terse_status trn_auto_print(const struct trn_auto_words *words, char *out, size_t cap);

/* 1: a mean of gradients is handed to the update of SGD in every step, as dense does it. */
int trn_auto_is_alike(const terse_method_description *chosen);

/* The settings, to be compared with those of a file: a run that auto started has the chosen method
 * there, and its own spec beside it. */
struct trn_settings trn_auto_settings(const struct trn_settings *settings, const com_json *kept);

/* ---- of a worker: collective ---- */

struct trn_auto {
    struct trn_auto_words words;
    com_json *choices; /* an array: what was chosen when, and what the candidates took */
};

/* If the method is auto: the chosen one becomes worker->spec, measured, or that of the checkpoint.
 * Before the method is made; the weights are there. */
TERSE_CHECK terse_status trn_auto_start(struct trn_worker *worker);
/* Before a step: measures again if that is due, and changes the method. */
TERSE_CHECK terse_status trn_auto_due(struct trn_worker *worker);
/* Writes what was chosen into the description of a run. */
void trn_auto_describe(const struct trn_worker *worker, com_json *run);
void trn_auto_free(struct trn_auto *automatic); /* NULL is fine */

#endif

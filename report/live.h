/* The live page of a training: an HTTP server in threads of its own. A slow or failing reader never
 * delays the thread that pushes. */
#ifndef REPORT_LIVE_H
#define REPORT_LIVE_H

#include <stdint.h>

#include <terse/status.h>

struct rep_live;

/* host: a numeric address or a name of this machine; NULL is 127.0.0.1. port 0: any free one.
 * TERSE_BAD_ARGUMENT: the port is taken or may not be used, or the host is not this machine's; see
 * the fault. */
terse_status rep_live_start(const char *host, uint16_t port, struct rep_live **out,
                            terse_fault *fault);

/* "http://127.0.0.1:8080/", until rep_live_stop. */
const char *rep_live_address(const struct rep_live *live);

/* Shows one line: a JSON object as in metrics.jsonl, or the object of run.json with "kind":"run",
 * which begins a run. From one thread at a time; never waits. A line of more than 65,536 bytes or
 * with a line end inside is not shown. */
void rep_live_push(struct rep_live *live, const char *json_line);

/* Sends readers the remaining lines (for half a second at most), then closes all connections. NULL
 * is fine. */
void rep_live_stop(struct rep_live *live);

#endif

/* `terse report RUN --live PORT`: the live page of a run that another program writes. */
#ifndef CLI_REPORT_LIVE_H
#define CLI_REPORT_LIVE_H

#include <stdint.h>

/* Shows the lines of the folder's run as they are written, until SIGINT or SIGTERM. Returns an exit
 * code. */
int report_live(const char *folder, uint16_t port);

#endif

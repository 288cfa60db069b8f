/* A test engine like one of a user: a full mesh of sockets, one poll loop, no threads. */
#ifndef TEST_GROUP_SOCKETS_H
#define TEST_GROUP_SOCKETS_H

#include <terse/group.h>

/* Creates the handles of a group of at most 8 workers over socket pairs. Returns 0 on failure. */
int sockets_open(uint32_t workers, terse_group **handles);

/* The same over slow links: each rank sends at most `burst` bytes every 10 ms to each other rank,
 * and nothing more after `limit` bytes. */
int sockets_open_slow(uint32_t workers, size_t burst, size_t limit, terse_group **handles);

#endif

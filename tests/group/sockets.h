/* A test engine as a user would write one: a full mesh of sockets, one poll loop, no threads. */
#ifndef TEST_GROUP_SOCKETS_H
#define TEST_GROUP_SOCKETS_H

#include <terse/group.h>

/* Handles of a group of at most 8 whose engines speak over socket pairs. 0 if something failed. */
int sockets_open(uint32_t workers, terse_group **handles);

#endif

/* terse: workers that train together say less to each other.
 *
 * The tour, in the order data meets it:
 *   status.h   errors as values, and where something was refused
 *   layout.h   named, shaped tensors of one flat float buffer
 *   codec.h    few bits for many floats; what is not said stays in memory
 *   frame.h    a payload that proves itself on a wire or in a file
 *   group.h    where workers meet: threads of one process, MPI, or your own functions
 *   exchange.h one gradient of many: memory, codec, wire and combine over a group
 *   method.h   point, direction, exchange and update: weights in, weights out
 *   info.h     what this build and this CPU can do */
#ifndef TERSE_TERSE_H
#define TERSE_TERSE_H

#include <terse/codec.h>
#include <terse/exchange.h>
#include <terse/frame.h>
#include <terse/group.h>
#include <terse/info.h>
#include <terse/layout.h>
#include <terse/method.h>
#include <terse/status.h>

#endif

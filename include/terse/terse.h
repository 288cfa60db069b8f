/* terse compresses gradients for data-parallel training.
 *
 * The headers, in the order of the data flow:
 *   status.h   status codes and faults
 *   layout.h   named, shaped tensors in one flat float buffer
 *   codec.h    compression to few bits per element, with a residual for error feedback
 *   user_codec.h codecs of your own, usable wherever a spec names one
 *   frame.h    a payload with header and checksum, for a wire or a file
 *   group.h    collectives among workers: threads of one process, MPI, or your own functions
 *   exchange.h a compressed all-reduce over a group
 *   method.h   a whole training step: point, direction, exchange and update
 *   info.h     version, kernel sets and build options */
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
#include <terse/user_codec.h>

#endif

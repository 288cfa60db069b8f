/* TERSE_API marks exported functions, TERSE_CHECK those whose status must not be ignored. */
#ifndef TERSE_EXPORT_H
#define TERSE_EXPORT_H

#if defined(__GNUC__)
#define TERSE_API __attribute__((visibility("default")))
#define TERSE_CHECK __attribute__((warn_unused_result))
#else
#define TERSE_API
#define TERSE_CHECK
#endif

#endif

/* What crosses the library's border, and what a caller must not ignore. */
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

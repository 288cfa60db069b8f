/* Codecs of your own in the command: shared objects (<terse/user_codec.h>, terse_plugin) and files
 * in Python (terse.register_codec). A plugin is code that runs as the command itself. */
#ifndef CLI_PLUGIN_H
#define CLI_PLUGIN_H

#include <stddef.h>

#include <terse/status.h>

/* Writes the list "a.so,b.py" with every path from the root of the file system; what is no file
 * stays as it is, for plugin_load to tell. Returns an exit code. */
int plugin_resolve(const char *list, char *out, size_t cap);

#define PLUGIN_NONE "none" /* a list without files */

/* Loads the files of a list, for as long as the process. Returns an exit code. */
int plugin_load(const char *list);

/* Loads one file in Python. libpython is opened at run time: the command links none.
 * (plugin_python.c) */
TERSE_CHECK terse_status plugin_python_load(const char *path, terse_fault *fault);

#endif

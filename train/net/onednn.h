/* The only file that includes oneDNN (2.x: 3.x has another C API). */
#ifndef TRN_ONEDNN_H
#define TRN_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR != 2
#error "terse trains with oneDNN 2.x"
#endif

#endif

#include "live.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>

#include "history.h"
#include "report.h"

enum {
    MOST_LINES = 4096,
    MOST_BYTES = 16 << 20,
    MOST_CONNECTIONS = 300,
    REQUEST_SECONDS = 5,      /* silence after which a request is given up */
    STREAM_SECONDS = 60,      /* the same for a reader of events that takes nothing */
    STACK_BYTES = 256 << 10,  /* of the thread of a connection */
    REQUEST_BYTES = 16 << 10, /* request line and headers, and bytes that wait to be sent */
    TICK_MS = 100,            /* how often a stream looks for new lines */
    QUIET_TICKS = 100,        /* then a comment is sent, which detects closed connections */
    LAST_MS = 500,            /* time for readers when the server ends */
    EVENT_HEAD = 64
};

struct rep_live {
    struct MHD_Daemon *daemon;
    struct rep_history *history;
    char *page;
    size_t page_len;
    char address[320];
    char token[24]; /* distinguishes this server's event ids from those of an earlier one */
    int loopback_only;
    int fd;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* ending was set, or a stream ended */
    int ending;
    unsigned streams;
};

/* One connection to /events. */
struct stream {
    struct rep_live *live;
    uint64_t cursor;
    unsigned quiet_ticks;
    int greeted;
    int said_bye;
    size_t len; /* length of the event in `event` */
    size_t sent;
    char line[REP_MOST_LINE];
    char event[EVENT_HEAD + REP_MOST_LINE];
};

static void deadline_after(struct timespec *when, long ms)
{
    clock_gettime(CLOCK_REALTIME, when);
    when->tv_nsec += ms % 1000 * 1000000L;
    when->tv_sec += ms / 1000 + when->tv_nsec / 1000000000L;
    when->tv_nsec %= 1000000000L;
}

/* Sleeps for a tick, or until the server ends; returns 1 if it ends. */
static int tick(struct rep_live *live)
{
    struct timespec when;
    deadline_after(&when, TICK_MS);
    pthread_mutex_lock(&live->lock);
    if (!live->ending)
        pthread_cond_timedwait(&live->changed, &live->lock, &when);
    int ending = live->ending;
    pthread_mutex_unlock(&live->lock);
    return ending;
}

static void set_event(struct stream *stream, const char *text)
{
    stream->len = (size_t)snprintf(stream->event, sizeof stream->event, "%s", text);
}

/* Puts the next event into the stream; 0 if there is none yet, -1 after the last one. */
static int next_event(struct stream *stream, int ending)
{
    stream->sent = 0;
    if (!stream->greeted) {
        stream->greeted = 1;
        set_event(stream, "retry: 1000\nevent: hello\ndata: {}\n\n");
        return 1;
    }
    size_t len = rep_history_next(stream->live->history, &stream->cursor, stream->line);
    if (len > 0) {
        int head = snprintf(stream->event, EVENT_HEAD, "id: %s-%llu\ndata: ", stream->live->token,
                            (unsigned long long)stream->cursor);
        memcpy(stream->event + head, stream->line, len);
        memcpy(stream->event + head + len, "\n\n", 2);
        stream->len = (size_t)head + len + 2;
        return 1;
    }
    if (!ending)
        return 0;
    if (stream->said_bye)
        return -1;
    stream->said_bye = 1;
    set_event(stream, "event: bye\ndata: {}\n\n");
    return 1;
}

/* Called in the connection's own thread, so it may sleep. */
static ssize_t read_events(void *context, uint64_t position, char *out, size_t cap)
{
    (void)position;
    struct stream *stream = context;
    int ending = 0;
    while (stream->sent == stream->len) {
        int got = next_event(stream, ending);
        if (got < 0)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (got == 0 && ++stream->quiet_ticks > QUIET_TICKS) {
            set_event(stream, ": still here\n\n");
            got = 1;
        }
        if (got > 0) {
            stream->quiet_ticks = 0;
            break;
        }
        stream->len = 0;
        ending = tick(stream->live);
    }
    size_t len = stream->len - stream->sent;
    len = len < cap ? len : cap;
    memcpy(out, stream->event + stream->sent, len);
    stream->sent += len;
    return (ssize_t)len;
}

static void count_stream(struct rep_live *live, int up)
{
    pthread_mutex_lock(&live->lock);
    live->streams += up ? 1U : -1U;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
}

static void free_stream(void *context)
{
    struct stream *stream = context;
    count_stream(stream->live, 0);
    free(stream);
}

/* The last line that a reconnecting reader received; 0 if it was another server's, or none. */
static uint64_t cursor_of(const struct rep_live *live, const char *last_id)
{
    size_t len = strlen(live->token);
    if (!last_id || strncmp(last_id, live->token, len) != 0 || last_id[len] != '-')
        return 0;
    return strtoull(last_id + len + 1, NULL, 10);
}

static struct MHD_Response *events_response(struct rep_live *live, struct MHD_Connection *to)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->live = live;
    stream->cursor =
        cursor_of(live, MHD_lookup_connection_value(to, MHD_HEADER_KIND, "Last-Event-ID"));
    stream->greeted = stream->cursor > 0;
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, REQUEST_BYTES / 4, read_events, stream, free_stream);
    if (!response) {
        free(stream);
        return NULL;
    }
    count_stream(live, 1);
    return response;
}

static enum MHD_Result send_response(struct MHD_Connection *to, unsigned status,
                                     struct MHD_Response *response, const char *type)
{
    if (!response)
        return MHD_NO; /* no memory: the connection closes, training continues */
    static const char policy[] = "default-src 'none'; style-src 'unsafe-inline'; "
                                 "script-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
                                 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Security-Policy", policy);
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(to, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *to, unsigned status, const char *why)
{
    size_t len = strlen(why);
    char copy[80];
    memcpy(copy, why, len);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, copy, MHD_RESPMEM_MUST_COPY);
    return send_response(to, status, response, "text/plain; charset=utf-8");
}

/* What may follow a name: nothing, or the port of this server or of a tunnel to it. */
static int is_end_or_port(const char *text)
{
    enum { MOST_DIGITS = 5 };
    if (text[0] == '\0')
        return 1;
    const size_t digits = text[0] == ':' ? strspn(text + 1, "0123456789") : 0;
    return digits >= 1 && digits <= MOST_DIGITS && text[1 + digits] == '\0';
}

/* Defence against DNS rebinding: a foreign page may let its own name resolve to this machine and
 * then read this server; the Host header still has that name. */
static int is_loopback_name(const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; host && i < sizeof names / sizeof names[0]; i++) {
        const size_t len = strlen(names[i]);
        if (strncasecmp(host, names[i], len) == 0 && is_end_or_port(host + len))
            return 1;
    }
    return 0;
}

static int has_body(struct MHD_Connection *from)
{
    const char *len = MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Content-Length");
    return MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Transfer-Encoding") ||
           (len && strcmp(len, "0") != 0);
}

/* Paths are compared as they came: "/%00" is not "/". */
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *path)
{
    (void)context;
    (void)connection;
    return strlen(path);
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
                              const char *verb, const char *version, const char *upload,
                              size_t *upload_len, void **request)
{
    struct rep_live *live = context;
    (void)version;
    (void)upload;
    (void)upload_len;
    (void)request;
    if (strcmp(verb, "GET") != 0 && strcmp(verb, "HEAD") != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (has_body(connection))
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "a request body is not allowed\n");
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    if (live->loopback_only && !is_loopback_name(host))
        return refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST, "not a name of this server\n");
    if (strcmp(path, "/") == 0) {
        struct MHD_Response *page =
            MHD_create_response_from_buffer(live->page_len, live->page, MHD_RESPMEM_PERSISTENT);
        return send_response(connection, MHD_HTTP_OK, page, "text/html; charset=utf-8");
    }
    if (strcmp(path, "/events") == 0) {
        (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                        (unsigned)STREAM_SECONDS);
        return send_response(connection, MHD_HTTP_OK, events_response(live, connection),
                             "text/event-stream");
    }
    return refuse(connection, MHD_HTTP_NOT_FOUND, "there is only / and /events\n");
}

static terse_status fail(terse_status status, terse_fault *fault, const char *host, uint16_t port,
                         const char *why)
{
    if (fault) {
        *fault = (terse_fault){.rank = -1};
        snprintf(fault->text, sizeof fault->text, "live page on %.100s, port %u: %.80s", host,
                 (unsigned)port, why);
    }
    return status;
}

static int is_loopback(const struct addrinfo *at)
{
    char name[64];
    return getnameinfo(at->ai_addr, at->ai_addrlen, name, sizeof name, NULL, 0, NI_NUMERICHOST) ==
               0 &&
           (strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0);
}

static int open_socket(const struct addrinfo *at)
{
    int yes = 1;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, MOST_CONNECTIONS) != 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

static void write_address(struct rep_live *live, const char *host)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char port[16] = "?";
    if (getsockname(live->fd, (struct sockaddr *)&bound, &len) == 0) {
        (void)getnameinfo((struct sockaddr *)&bound, len, NULL, 0, port, sizeof port,
                          NI_NUMERICSERV);
    }
    int is_ipv6 = strchr(host, ':') != NULL;
    snprintf(live->address, sizeof live->address, "http://%s%.255s%s:%s/", is_ipv6 ? "[" : "", host,
             is_ipv6 ? "]" : "", port);
}

static terse_status listen_on(struct rep_live *live, const char *host, uint16_t port,
                              terse_fault *fault)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int code = getaddrinfo(host, service, &wanted, &found);
    if (code != 0)
        return fail(TERSE_BAD_ARGUMENT, fault, host, port, gai_strerror(code));
    live->fd = open_socket(found);
    int failed = errno;
    live->loopback_only = is_loopback(found);
    freeaddrinfo(found);
    if (live->fd < 0) {
        const char *why = failed == EADDRINUSE
                              ? "the port is taken by another program; choose another one"
                              : strerror(failed);
        return fail(TERSE_BAD_ARGUMENT, fault, host, port, why);
    }
    write_address(live, host);
    return TERSE_OK;
}

/* Signals belong to the training: no thread of the server handles one. */
static void start_daemon(struct rep_live *live)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    live->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0, NULL,
        NULL, answer, live, MHD_OPTION_LISTEN_SOCKET, live->fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)REQUEST_SECONDS,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)REQUEST_BYTES, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void destroy(struct rep_live *live)
{
    rep_history_destroy(live->history);
    pthread_cond_destroy(&live->changed);
    pthread_mutex_destroy(&live->lock);
    free(live->page);
    free(live);
}

terse_status rep_live_start(const char *host, uint16_t port, struct rep_live **out,
                            terse_fault *fault)
{
    host = !host ? "127.0.0.1" : host;
    struct rep_live *live = calloc(1, sizeof *live);
    if (!live)
        return fail(TERSE_NO_MEMORY, fault, host, port, "out of memory");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(live->token, sizeof live->token, "%lx",
             (unsigned long)now.tv_sec * 1000000UL + (unsigned long)now.tv_nsec / 1000UL);
    pthread_mutex_init(&live->lock, NULL);
    pthread_cond_init(&live->changed, NULL);
    live->history = rep_history_create(MOST_LINES, MOST_BYTES);
    if (!live->history || rep_page_make_live(&live->page, &live->page_len) != TERSE_OK) {
        destroy(live);
        return fail(TERSE_NO_MEMORY, fault, host, port, "out of memory");
    }
    terse_status status = listen_on(live, host, port, fault);
    if (status != TERSE_OK) {
        destroy(live);
        return status;
    }
    start_daemon(live);
    if (!live->daemon) {
        destroy(live); /* the socket was handed to the daemon, with or without success */
        return fail(TERSE_NO_MEMORY, fault, host, port, "cannot start the thread of the server");
    }
    *out = live;
    return TERSE_OK;
}

const char *rep_live_address(const struct rep_live *live)
{
    return live->address;
}

/* Lines about steps are many, and may be thinned. */
static int is_step(const char *line)
{
    const char *kind = strstr(line, "\"kind\"");
    if (!kind)
        return 0;
    kind += strlen("\"kind\"");
    kind += strspn(kind, " :");
    return strncmp(kind, "\"step\"", strlen("\"step\"")) == 0;
}

void rep_live_push(struct rep_live *live, const char *json_line)
{
    size_t len = strcspn(json_line, "\r\n");
    if (len > 0 && json_line[len + strspn(json_line + len, "\r\n")] == '\0')
        (void)rep_history_push(live->history, json_line, len, is_step(json_line));
}

void rep_live_stop(struct rep_live *live)
{
    if (!live)
        return;
    struct timespec when;
    deadline_after(&when, LAST_MS);
    pthread_mutex_lock(&live->lock);
    live->ending = 1;
    pthread_cond_broadcast(&live->changed);
    while (live->streams > 0 &&
           pthread_cond_timedwait(&live->changed, &live->lock, &when) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&live->lock);
    MHD_stop_daemon(live->daemon); /* closes the socket and joins all threads */
    destroy(live);
}

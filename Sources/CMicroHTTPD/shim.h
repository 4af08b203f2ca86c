#pragma once
#include <microhttpd.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

// Swift cannot call variadic C functions, so libmicrohttpd's are called here.

typedef void *(*cmhd_request_line_callback)(void *cls, const char *target, struct MHD_Connection *connection);

struct cmhd_options {
    unsigned int connection_limit;
    unsigned int idle_timeout_seconds;
    size_t connection_memory;
};

// The target is decoded in Swift, where bad encodings can be told apart, so it is left as it came.
static inline size_t cmhd_keep_escaped(void *cls, struct MHD_Connection *connection, char *text) {
    (void)cls;
    (void)connection;
    return strlen(text);
}

// Makes a daemon without threads: it is handed its connections by cmhd's caller, and works in MHD_run alone, which is to
// be called whenever the descriptor of cmhd_epoll_descriptor is readable.
static inline struct MHD_Daemon *cmhd_start(const struct cmhd_options *options, MHD_AccessHandlerCallback handle,
                                            MHD_RequestCompletedCallback completed,
                                            MHD_NotifyConnectionCallback connection_changed,
                                            cmhd_request_line_callback request_line, void *cls) {
    struct MHD_OptionItem items[] = {
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)options->connection_limit, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)options->idle_timeout_seconds, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)options->connection_memory, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)completed, cls},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, cls},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)request_line, cls},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)&cmhd_keep_escaped, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle,
                            cls, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

// -1 when unknown.
static inline int cmhd_epoll_descriptor(struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

// -1 when unknown.
static inline int cmhd_descriptor(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static inline const struct sockaddr *cmhd_client_address(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

// What the connection-changed callback stored for this connection.
static inline void *cmhd_socket_context(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

// Bytes of the request line and header fields together; 0 when unknown.
static inline size_t cmhd_header_size(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

// Glibc's module for Swift leaves these two out. Both return -1 with errno, as the originals do.

// Declared here because its header asks for _GNU_SOURCE, under which fd_set is another type than in Swift's Glibc.
extern int accept4(int listening, struct sockaddr *address, socklen_t *length, int flags);

static inline int cmhd_eventfd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

static inline int cmhd_accept(int listening, struct sockaddr *address, socklen_t *length) {
    return accept4(listening, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

#pragma once
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

// Swift cannot call variadic C functions, so libcurl's are called here.

// What comes of an answer, part by part; returns whether more is wanted.
typedef int (*ccurl_received_callback)(void *cls, const uint8_t *bytes, size_t count);
// A line of an answer's head, or of what follows its body, with its end; returns whether more is wanted.
typedef int (*ccurl_header_callback)(void *cls, const uint8_t *bytes, size_t count);
// Whether a connection may be made to an address: 4 or 16 bytes.
typedef int (*ccurl_address_callback)(void *cls, const uint8_t *address, size_t count);

struct ccurl_callbacks {
    ccurl_received_callback received;
    ccurl_header_callback header;
    ccurl_address_callback allows;
    void *cls;
};

struct ccurl_request {
    const char *method;
    const char *url;
    struct curl_slist *headers;
    const uint8_t *body;
    size_t body_count;
    long connect_milliseconds;
    long milliseconds;
    // What is called back with `cls`; has to outlive the transfer.
    const struct ccurl_callbacks *callbacks;
};

static inline size_t ccurl_write(char *bytes, size_t size, size_t count, void *context) {
    const struct ccurl_callbacks *own = (const struct ccurl_callbacks *)context;
    return own->received(own->cls, (const uint8_t *)bytes, size * count) ? size * count : CURL_WRITEFUNC_ERROR;
}

static inline size_t ccurl_head(char *bytes, size_t size, size_t count, void *context) {
    const struct ccurl_callbacks *own = (const struct ccurl_callbacks *)context;
    return own->header(own->cls, (const uint8_t *)bytes, size * count) ? size * count : 0;
}

// Looks at the address that a name has led to, right before the connection is made to it.
static inline curl_socket_t ccurl_open(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
    const struct ccurl_callbacks *own = (const struct ccurl_callbacks *)context;
    (void)purpose;
    int is_allowed = 0;
    if (address->family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->addr;
        is_allowed = own->allows(own->cls, (const uint8_t *)&v4->sin_addr, 4);
    } else if (address->family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->addr;
        is_allowed = own->allows(own->cls, (const uint8_t *)&v6->sin6_addr, 16);
    }
    if (!is_allowed) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Prepares a handle; the callbacks, the headers and the body have to outlive the transfer. No redirection is followed, no proxy
// and no password of the environment's is used.
static inline CURLcode ccurl_prepare(CURL *handle, const struct ccurl_request *request) {
    void *context = (void *)request->callbacks;
    curl_easy_reset(handle);
    CURLcode code = curl_easy_setopt(handle, CURLOPT_URL, request->url);
    if (code != CURLE_OK) return code;
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method);
    if (request->body) {
        curl_easy_setopt(handle, CURLOPT_POST, 1L);
        curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_count);
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request->body);
    }
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, request->headers);
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
    curl_easy_setopt(handle, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, request->connect_milliseconds);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, request->milliseconds);
    curl_easy_setopt(handle, CURLOPT_DNS_CACHE_TIMEOUT, 60L);
    // Else a name that nobody answers for stops all transfers of the thread until its look-up ends, long after its time is up.
    curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, ccurl_write);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, ccurl_head);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, ccurl_open);
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, context);
    curl_easy_setopt(handle, CURLOPT_PRIVATE, request->callbacks->cls);
    return CURLE_OK;
}

static inline void *ccurl_owner(CURL *handle) {
    void *owner = NULL;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &owner);
    return owner;
}

static inline long ccurl_status(CURL *handle) {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// Has no more than so many connections open, and none to one host beyond its share.
static inline void ccurl_limit(CURLM *multi, long connections, long of_one_host) {
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
    curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, of_one_host);
}

// The transfer that a message says is over, and how it ended.
static inline CURL *ccurl_finished(CURLM *multi, CURLcode *code) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left))) {
        if (message->msg == CURLMSG_DONE) {
            *code = message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}

#pragma once
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <openssl/x509_vfy.h>
#include <openssl/pem.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/hmac.h>

// Macros and variadic functions, which Swift cannot call.

static inline EVP_PKEY *copenssl_generate_ec_key(const char *curve) {
    return EVP_EC_gen(curve);
}

static inline long copenssl_bio_memory(BIO *bio, char **bytes) {
    return BIO_get_mem_data(bio, bytes);
}

static const int copenssl_utf8_string = MBSTRING_UTF8;
static const unsigned long copenssl_name_on_one_line = XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB;

static inline void copenssl_extension_context(X509V3_CTX *context, X509 *issuer, X509 *subject) {
    X509V3_set_ctx(context, issuer, subject, NULL, NULL, 0);
    X509V3_set_ctx_nodb(context);
}

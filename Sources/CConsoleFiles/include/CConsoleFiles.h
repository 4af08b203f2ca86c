#pragma once
#include <stddef.h>

/// A file of the console's page.
struct console_file {
    const char *name;
    /// Its bytes and a zero.
    const unsigned char *text;
};

/// All of them, the page first, and how many there are.
const struct console_file *console_files(size_t *count);

#include "CConsoleFiles.h"

// The compilers of Swift 6.2 and later know #embed, and call it an extension.
#pragma clang diagnostic ignored "-Wc23-extensions"

// The page itself comes first.
static const struct console_file files[] = {
    {"index.html", (const unsigned char[]) {
#embed "../ConsoleAssets/files/index.html" suffix(, 0)
    }},
    {"console.css", (const unsigned char[]) {
#embed "../ConsoleAssets/files/console.css" suffix(, 0)
    }},
    {"screens.css", (const unsigned char[]) {
#embed "../ConsoleAssets/files/screens.css" suffix(, 0)
    }},
    {"icon.svg", (const unsigned char[]) {
#embed "../ConsoleAssets/files/icon.svg" suffix(, 0)
    }},
    {"main.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/main.js" suffix(, 0)
    }},
    {"early.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/early.js" suffix(, 0)
    }},
    {"api.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/api.js" suffix(, 0)
    }},
    {"words.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/words.js" suffix(, 0)
    }},
    {"dom.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/dom.js" suffix(, 0)
    }},
    {"time.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/time.js" suffix(, 0)
    }},
    {"address.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/address.js" suffix(, 0)
    }},
    {"find.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/find.js" suffix(, 0)
    }},
    {"signin.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/signin.js" suffix(, 0)
    }},
    {"look.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/look.js" suffix(, 0)
    }},
    {"customer.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/customer.js" suffix(, 0)
    }},
    {"attention.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/attention.js" suffix(, 0)
    }},
    {"lanes.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/lanes.js" suffix(, 0)
    }},
    {"said.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/said.js" suffix(, 0)
    }},
    {"sentence.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/sentence.js" suffix(, 0)
    }},
    {"picture.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/picture.js" suffix(, 0)
    }},
    {"sliders.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/sliders.js" suffix(, 0)
    }},
    {"history.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/history.js" suffix(, 0)
    }},
    {"why.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/why.js" suffix(, 0)
    }},
    {"commands.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/commands.js" suffix(, 0)
    }},
    {"forms.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/forms.js" suffix(, 0)
    }},
    {"steps.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/steps.js" suffix(, 0)
    }},
    {"saving.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/saving.js" suffix(, 0)
    }},
    {"event.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/event.js" suffix(, 0)
    }},
    {"proof.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/proof.js" suffix(, 0)
    }},
    {"overview.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/overview.js" suffix(, 0)
    }},
    {"charts.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/charts.js" suffix(, 0)
    }},
    {"bars.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/bars.js" suffix(, 0)
    }},
    {"catalog.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/catalog.js" suffix(, 0)
    }},
    {"screenwords.js", (const unsigned char[]) {
#embed "../ConsoleAssets/files/screenwords.js" suffix(, 0)
    }},
};

const struct console_file *console_files(size_t *count) {
    *count = sizeof files / sizeof *files;
    return files;
}

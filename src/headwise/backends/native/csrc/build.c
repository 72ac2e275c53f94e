/* What this library is: for which processor and by which compiler, as the compiler itself reports,
 * with which flags, of which version of headwise, and from which sources. */
#include "kernels.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#ifndef BUILD_VARIANT
#define BUILD_VARIANT ""
#define BUILD_FLAGS ""
#define BUILD_VERSION ""
#define BUILD_SOURCES ""
#endif

/* The variant, as headwise names it. */
EXPORT const char *build_variant(void) { return BUILD_VARIANT; }

EXPORT const char *build_compiler(void) {
#if defined(__clang__)
    return "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__);
#else
    return "an unknown compiler";
#endif
}

/* The flags that were passed to the compiler. */
EXPORT const char *build_flags(void) { return BUILD_FLAGS; }

/* The version of headwise. */
EXPORT const char *build_version(void) { return BUILD_VERSION; }

/* A digest of the sources. */
EXPORT const char *build_sources(void) { return BUILD_SOURCES; }

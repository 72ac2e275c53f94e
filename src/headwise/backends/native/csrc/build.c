/* Which compiler built this library, with which flags and instruction sets, as the compiler itself
 * reports: a program named `cc` may replace the flags that it was given. */
#include "kernels.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *build_compiler(void) {
#if defined(__clang__)
    return "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__);
#else
    return "an unknown compiler";
#endif
}

/* The flags that were passed to the compiler. */
const char *build_flags(void) {
#ifdef BUILD_FLAGS
    return BUILD_FLAGS;
#else
    return "";
#endif
}

/* Instruction set extensions the compiler may have used, separated by blanks. */
const char *build_instructions(void) {
    return ""
#ifdef __AVX2__
           "avx2 "
#endif
#ifdef __FMA__
           "fma "
#endif
#ifdef __AVX512F__
           "avx512f "
#endif
#ifdef __AVX512BW__
           "avx512bw "
#endif
#ifdef __AVX512DQ__
           "avx512dq "
#endif
#ifdef __AVX512VL__
           "avx512vl "
#endif
#ifdef __AVX512BF16__
           "avx512_bf16 "
#endif
#ifdef __AVX512FP16__
           "avx512_fp16 "
#endif
#ifdef __AMX_BF16__
           "amx_bf16 "
#endif
#ifdef __ARM_NEON
           "asimd "
#endif
#ifdef __ARM_FEATURE_SVE
           "sve "
#endif
#ifdef __ARM_FEATURE_SVE2
           "sve2 "
#endif
#ifdef __ARM_FEATURE_BF16
           "bf16 "
#endif
        ;
}

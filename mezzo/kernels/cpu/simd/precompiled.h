// For the precompiled header: what Highway reads of the compiler and of itself whatever the
// instruction set. Highway's own headers are read again for each.
#pragma once

#include <hwy/base.h>
#include <hwy/targets.h>
#if HWY_ARCH_X86
#include <immintrin.h>
#endif

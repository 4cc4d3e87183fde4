// The libraries of a GPU, by their names.
#pragma once
#include "base/shared_library.h"

namespace ingot::backend::cuda {

extern const LibraryNames driver_library, nvrtc_library, cublaslt_library, cufft_library;

}  // namespace ingot::backend::cuda

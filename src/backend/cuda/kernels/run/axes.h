// What a printed CUDA kernel and its launcher share: structs are written once, as tokens that are both C++ and the kernel's text.
#pragma once

#define INGOT_CUDA_TEXT(...) #__VA_ARGS__
#define INGOT_CUDA_TEXT_OF(...) INGOT_CUDA_TEXT(__VA_ARGS__)

// Axes that `Walks` tensors are walked along together; strides in elements. Point n of them, counted in row-major order.
#define INGOT_CUDA_AXES \
  template <int Walks> \
  struct CudaAxes { \
    int rank; \
    long dims[16]; \
    long strides[Walks][16]; \
  };

namespace ingot::kernels {

INGOT_CUDA_AXES

}  // namespace ingot::kernels

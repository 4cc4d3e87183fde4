// Structs shared by a printed kernel and its launcher. They are written once, as macros that expand to C++ and are also put into the kernel's text.
#pragma once

#define INGOT_CUDA_TEXT(...) #__VA_ARGS__
#define INGOT_CUDA_TEXT_OF(...) INGOT_CUDA_TEXT(__VA_ARGS__)

// Axes that `Walks` tensors are iterated over together; strides in elements. Points are numbered in row-major order.
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

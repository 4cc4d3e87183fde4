#include "backend/cuda/run/libraries.h"

namespace ingot::backend::cuda {

namespace {

constexpr std::string_view driver_sonames[] = {"libcuda.so.1"};
constexpr std::string_view nvrtc_sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"}, nvrtc_packages[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
constexpr std::string_view cublaslt_sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"}, cublaslt_packages[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
constexpr std::string_view cufft_sonames[] = {"libcufft.so.12", "libcufft.so.11"}, cufft_packages[] = {"nvidia/cu13/lib", "nvidia/cufft/lib"};

}  // namespace

constexpr LibraryNames driver_library{"NVIDIA's driver (libcuda.so.1)",
                                      driver_sonames,
                                      {},
                                      "install NVIDIA's driver for this GPU (in a container: start it with the GPU passed in, such as --gpus all), or run on the CPU",
                                      "update NVIDIA's driver to one for CUDA 11.4 or later, or run on the CPU"};
constexpr LibraryNames nvrtc_library{"NVRTC (libnvrtc.so.13), which compiles code for the GPU,", nvrtc_sonames, nvrtc_packages,
                                     "`pip install nvidia-cuda-nvrtc` (90 MB; a GPU is not needed), or name the folder that holds it in INGOT_LIBRARY_PATH"};
constexpr LibraryNames cublaslt_library{"cuBLASLt (libcublasLt.so.13), which multiplies matrices on the GPU,", cublaslt_sonames, cublaslt_packages,
                                        "`pip install nvidia-cublas`, or name the folder that holds it in INGOT_LIBRARY_PATH"};
constexpr LibraryNames cufft_library{"cuFFT (libcufft.so.12), which computes Fourier transforms on the GPU,", cufft_sonames, cufft_packages,
                                     "`pip install nvidia-cufft`, or name the folder that holds it in INGOT_LIBRARY_PATH"};

}  // namespace ingot::backend::cuda

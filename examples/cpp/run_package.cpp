// Runs an AOTInductor package that ingot.save(module, "model.pt2", format="aot_inductor") wrote, without Python.
//
//   run_package libingot_torch.so model.pt2 inputs.pt outputs.pt
//
// inputs.pt: torch.save of a list of calls, each a list of tensors; outputs.pt: the results in the same form, for torch.load.
// Build it against an installed torch: its include folders, and libraries torch, torch_cpu and c10.
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: run_package libingot_torch.so model.pt2 inputs.pt outputs.pt\n");
    return 2;
  }
  // Loads the library that registers the operator of the package; nothing else of it is used.
  if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  try {
    torch::inductor::AOTIModelPackageLoader package(argv[2]);
    std::ifstream in(argv[3], std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    c10::impl::GenericList results(c10::AnyType::get());
    c10::IValue calls = torch::jit::pickle_load(bytes);
    for (const c10::IValue& call : calls.toListRef()) {
      std::vector<at::Tensor> inputs;
      for (const c10::IValue& tensor : call.toListRef()) inputs.push_back(tensor.toTensor());
      c10::impl::GenericList outputs(c10::AnyType::get());
      for (const at::Tensor& tensor : package.run(inputs)) outputs.push_back(tensor.defined() ? c10::IValue(tensor) : c10::IValue());  // None stays None
      results.push_back(outputs);
    }
    std::vector<char> out = torch::jit::pickle_save(results);
    std::ofstream(argv[4], std::ios::binary).write(out.data(), static_cast<std::streamsize>(out.size()));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}

// The importer and the compiler behind it under hostile archives: every input ends in a plan or an ingot::Error.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <string>

#include "base/error.h"
#include "capture/capture.h"
#include "pipeline.h"
#include "token_mutator.h"

namespace {

void import_bytes(const uint8_t* data, size_t size) {
  static const std::string path = "/tmp/ingot_fuzz_importer_" + std::to_string(getpid()) + ".pt2";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    ingot::capture::Model m = ingot::capture::import_archive(path);
    ingot::ir::verify(m.graph, ingot::ir::Level::captured);
    // Every byte that the importer promises is read.
    unsigned sum = 0;
    for (const ingot::ir::Weight& w : m.graph.weights) {
      for (size_t i = 0; i < w.bytes; ++i) sum += static_cast<unsigned>(w.data[i]);
    }
    std::string text = ingot::ir::print(m.graph);
    if (sum == 12345 && text.empty()) std::puts("");
    ingot::build(m, {});
  } catch (const ingot::Error&) {
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  import_bytes(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// An archive's texts are not compressed and have no checksum that is looked at, so that a token of the same length leaves all offsets right.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  std::minstd_rand random(seed);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) ingot::fuzz::change_token(text, random, true);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

// The importer under hostile files: every input ends in a model or an ingot::Error.
//
//   clang++ -fsanitize=fuzzer,address ...   libFuzzer calls LLVMFuzzerTestOneInput
//   g++ -DINGOT_FUZZ_MAIN ...               a plain loop: importer SECONDS SEED FILE.pt2...  mutates the given archives
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/error.h"
#include "capture/capture.h"

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
  } catch (const ingot::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  import_bytes(data, size);
  return 0;
}

#ifdef INGOT_FUZZ_MAIN
int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: importer SECONDS SEED FILE.pt2...\n");
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 3; i < argc; ++i) {
    std::ifstream f(argv[i], std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
  }
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[2])));
  auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  size_t runs = 0;
  const char* words[] = {"-1", "9223372036854775807", "\"as_int\"", "null", "[]", "{}", "\"Infinity\"", "as_tensor", "0", "Mul(", "1e99", "true"};
  for (; std::chrono::steady_clock::now() < stop; ++runs) {
    std::string file = seeds[below(seeds.size())];
    for (size_t edits = 1 + below(4); edits-- > 0;) {
      size_t at = below(file.size());
      switch (below(6)) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] ^= static_cast<char>(1 << below(8)); break;
        case 2: {  // a piece of the file over another
          size_t n = std::min(below(40), file.size() - at), from = below(file.size() - n);
          std::memmove(file.data() + at, file.data() + from, n);
          break;
        }
        case 3: {  // a word of the format over what stands there, the length kept so that offsets stay right
          std::string w = words[below(std::size(words))];
          if (at + w.size() <= file.size()) file.replace(at, w.size(), w);
          break;
        }
        case 4: {  // a digit of the text becomes another
          size_t digit = file.find_first_of("0123456789", at);
          if (digit != std::string::npos) file[digit] = static_cast<char>('0' + below(10));
          break;
        }
        default: {  // the last parts hold the directory
          size_t tail = std::min<size_t>(file.size(), 2200);
          file[file.size() - 1 - below(tail)] = static_cast<char>(below(2) ? 0xff : random());
        }
      }
    }
    if (below(50) == 0) file.resize(below(file.size()));
    import_bytes(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  }
  std::printf("%zu files\n", runs);
}
#endif

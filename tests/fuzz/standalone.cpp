// Runs a fuzzer without libFuzzer, for compilers that have none: mutates the seeds at random, without looking at what they reach.
//
//   fuzz_plan SECONDS SEED FOLDER      writes each input to "fuzz_last_input" before it runs, so that one that crashes is there
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed);

namespace {
std::minstd_rand random_number;
size_t below(size_t n) { return n == 0 ? 0 : random_number() % n; }
}  // namespace

// A few bytes: replaced, flipped, or copied from elsewhere.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t) {
  if (size == 0) return 0;
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = below(size);
    switch (below(3)) {
      case 0: data[at] = static_cast<uint8_t>(random_number()); break;
      case 1: data[at] = static_cast<uint8_t>(data[at] ^ (1u << below(8))); break;
      default: {
        const size_t n = below(std::min<size_t>(40, size - at)), from = below(size - n);
        std::copy_n(std::vector<uint8_t>(data + from, data + from + n).data(), n, data + at);
      }
    }
  }
  return below(50) == 0 ? below(size) : size;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s SECONDS SEED FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::vector<uint8_t>> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(argv[3])) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(seeds.back().data(), seeds.back().size());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s has no files to begin with\n", argv[3]);
    return 2;
  }
  random_number.seed(static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)));
  constexpr size_t most = size_t{1} << 20;
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  size_t runs = 0;
  for (; std::chrono::steady_clock::now() < stop; ++runs) {
    std::vector<uint8_t> input = seeds[below(seeds.size())];
    size_t size = input.size();
    input.resize(std::max(most, size));
    for (size_t rounds = 1 + below(3); rounds > 0; --rounds) size = LLVMFuzzerCustomMutator(input.data(), size, input.size(), static_cast<unsigned>(random_number()));
    input.resize(size);
    input.shrink_to_fit();  // a read behind the end is seen
    std::ofstream("fuzz_last_input", std::ios::binary).write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(size));
    const auto begin = std::chrono::steady_clock::now();
    LLVMFuzzerTestOneInput(input.data(), input.size());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > 30) {
      std::fprintf(stderr, "one input took %.0f s: fuzz_last_input\n", seconds);
      return 1;
    }
  }
  std::printf("%zu inputs, no finding\n", runs);
}

#include "backend/cuda/compile/local_bytes_test.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace ingot::backend::cuda {

std::map<std::string, uint32_t> local_bytes(const std::vector<std::byte>& cubin) {
  auto get = [&]<class T>(size_t at, T) {
    T out;
    std::memcpy(&out, cubin.data() + at, sizeof out);
    return out;
  };
  auto text = [&](size_t at) { return std::string(reinterpret_cast<const char*>(cubin.data()) + at); };
  struct Section {
    std::string name;
    size_t at, size, link;
  };
  std::vector<Section> sections;
  const auto table = static_cast<size_t>(get(0x28, uint64_t{}));
  const size_t entry = get(0x3a, uint16_t{}), count = get(0x3c, uint16_t{}), names = table + entry * get(0x3e, uint16_t{});
  for (size_t s = 0; s < count; ++s) {
    const size_t at = table + entry * s;
    sections.push_back({text(static_cast<size_t>(get(names + 0x18, uint64_t{})) + get(at, uint32_t{})), static_cast<size_t>(get(at + 0x18, uint64_t{})),
                        static_cast<size_t>(get(at + 0x20, uint64_t{})), get(at + 0x28, uint32_t{})});
  }
  auto section = [&](std::string_view name) { return std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == name; }); };
  const auto info = section(".nv.info"), symbols = section(".symtab");
  std::map<std::string, uint32_t> out;
  if (info == sections.end() || symbols == sections.end()) return out;
  constexpr uint8_t sized = 4, frame_size = 0x11;
  constexpr size_t symbol_bytes = 24;
  for (size_t at = info->at; at < info->at + info->size;) {
    if (get(at, uint8_t{}) == sized) {
      if (get(at + 1, uint8_t{}) == frame_size)
        out[text(sections[symbols->link].at + get(symbols->at + symbol_bytes * get(at + 4, uint32_t{}), uint32_t{}))] = get(at + 8, uint32_t{});
      at += get(at + 2, uint16_t{});
    }
    at += 4;
  }
  return out;
}

}  // namespace ingot::backend::cuda

// What a driver reads of the code it is given: for which GPU it is, by which CUDA it was compiled, and the kernels in it.
#pragma once
#include <elf.h>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace images {

struct Image {
  bool valid = false, ptx = false;
  int sm = 0, cuda = 0;  // 13000: 13.0
  std::vector<std::string> kernels;
};

inline Image read_ptx(std::string_view text) {
  Image out;
  out.ptx = true;
  auto after = [&](std::string_view word) {
    size_t at = text.find(word);
    return at == std::string_view::npos ? std::string() : std::string(text.substr(at + word.size(), 16));
  };
  double version = std::atof(after("\n.version ").c_str());
  // PTX 8.5 came with CUDA 12.5 and 12.6; from 8.6 on it is one less than CUDA's minor version.
  int major = static_cast<int>(version), minor = static_cast<int>(version * 10 + 0.5) % 10;
  out.cuda = (major + 4) * 1000 + (major == 8 && minor > 5 ? minor + 1 : minor) * 10;
  out.sm = std::atoi(after(".target sm_").c_str());
  constexpr std::string_view entry = ".entry ";
  for (size_t at = text.find(entry); at != std::string_view::npos; at = text.find(entry, at + 1)) {
    size_t begin = at + entry.size();
    out.kernels.emplace_back(text.substr(begin, text.find('(', begin) - begin));
  }
  out.valid = out.sm > 0 && version > 0;
  return out;
}

// CUDA 13 has its own kind of ELF file: the architecture stands one byte further up.
inline Image read_cubin(const char* bytes) {
  Image out;
  Elf64_Ehdr head;
  std::memcpy(&head, bytes, sizeof head);
  bool newer = head.e_ident[EI_ABIVERSION] >= 8;
  out.sm = static_cast<int>((newer ? head.e_flags >> 8 : head.e_flags) & 0xff);
  out.cuda = newer ? 13000 : 12000;
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  std::memcpy(sections.data(), bytes + head.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& s : sections) {
    if (s.sh_type != SHT_SYMTAB) continue;
    std::vector<Elf64_Sym> symbols(s.sh_size / sizeof(Elf64_Sym));
    std::memcpy(symbols.data(), bytes + s.sh_offset, symbols.size() * sizeof(Elf64_Sym));
    const char* names = bytes + sections[s.sh_link].sh_offset;
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF) out.kernels.emplace_back(names + symbol.st_name);
    }
  }
  out.valid = out.sm > 0;
  return out;
}

inline Image read_image(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) return read_cubin(bytes);
  return read_ptx(bytes);
}

}  // namespace images

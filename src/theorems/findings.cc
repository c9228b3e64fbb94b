#include "theorems/findings.h"

#include <cstdio>

namespace headproof {

std::string where(Index batch, Index query) {
  return "batch " + std::to_string(batch) + ", query " + std::to_string(query);
}

std::string where(Index batch, Index query, Index key) {
  return where(batch, query) + ", key " + std::to_string(key);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace headproof

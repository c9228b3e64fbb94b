#include "theorems/findings.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace headproof {

std::string where(Index batch, Index query) {
  return "batch " + std::to_string(batch) + ", query " + std::to_string(query);
}

std::string where(Index batch, Index query, Index key) {
  return where(batch, query) + ", key " + std::to_string(key);
}

std::string number(double value) {
  if (std::isnan(value)) return "nan";  // of either sign
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

Verdict not_applicable(std::string why) {
  Finding finding;
  finding.what = "the theorem says something here";
  finding.outcome = Outcome::not_applicable;
  finding.note = std::move(why);
  return {{finding}};
}

}  // namespace headproof

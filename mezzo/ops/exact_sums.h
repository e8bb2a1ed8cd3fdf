#pragma once
namespace mezzo { class ExactSums { public: explicit ExactSums(bool = true) {} ~ExactSums() {} }; }

package runtime

// GeneratedCodeVersion1 exists so that generated code that needs this package as it is, or a later one,
// compiles with no older one. Do not use it.
const GeneratedCodeVersion1 = true

// Placeholder so that the package builds; replaced by the module's own files.

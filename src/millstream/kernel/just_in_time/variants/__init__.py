"""The just-in-time paper's other ways to detect what is not demanded, which do not pay by default: for experiments."""

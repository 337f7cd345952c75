-- A platform that says that a file is deleted names no message.
CREATE INDEX attachment_file ON attachment (agent, native_file);

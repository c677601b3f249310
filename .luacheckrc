-- luacheck's settings for the scripts that Redlatch runs inside Redis. They follow the narrowest server that is
-- supported (Redis 6.2), so that a script which passes here finds all it names on every server.

std = "lua51"
max_line_length = 120
-- The header of a script is a table of keys, arguments and replies: a line for each reads better than a wrapped one.
max_comment_line_length = 140

-- A script works on what it is given: its keys and arguments are never written to.
read_globals = {
    "KEYS",
    "ARGV",
    "cjson",
    "cmsgpack",
    "bit",
    "struct",
    -- Only what Redis 6.2 has. acl_check_cmd, REDIS_VERSION and the function library came later.
    redis = {
        fields = {
            "call", "pcall", "error_reply", "status_reply", "sha1hex", "log",
            "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING",
            "setresp", "replicate_commands", "set_repl",
            "REPL_ALL", "REPL_AOF", "REPL_REPLICA", "REPL_SLAVE", "REPL_NONE",
        },
    },
}

-- Part of Lua 5.1, but taken away by the server's sandbox: luacheck then reports them as undefined.
not_globals = {
    "arg", "debug", "dofile", "io", "loadfile", "module", "newproxy", "os", "package", "print", "require",
}

-- Redis refuses a script that creates a global variable.
allow_defined = false
allow_defined_top = false

exclude_files = { ".build" }

# fish completion for unhang. It asks the program itself, so it knows every command and option of the one that is installed.

function __unhang_commands
    unhang --help 2>/dev/null | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 } on { word = $1; sub(/^ *[^ ]+ +/, ""); print word "\t" $0 }'
end

# Each option that the help of the command names, with what its own line says of it.
function __unhang_options
    set -l words (commandline -opc)
    set -l command
    if set -q words[2]; and string match -qr '^[a-z]' -- $words[2]
        set command $words[2]
    end
    unhang $command --help 2>/dev/null | awk '
        /^ +-/ { line = $0; sub(/^ +/, "", line); says = match(line, /  +/) ? substr(line, RSTART + RLENGTH) : "" }
        { own = /^ +-/; rest = $0
          while (match(rest, /--[a-z][a-z-]*/)) {
              name = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
              if (!(name in told) || own) told[name] = own ? says : told[name]
              own = 0 } }
        END { for (name in told) print name "\t" told[name] }'
end

complete -c unhang -n '__fish_use_subcommand' -a '(__unhang_commands)'
complete -c unhang -n 'string match -q -- "-*" (commandline -ct)' -a '(__unhang_options)'
complete -c unhang -n '__fish_seen_subcommand_from emulate' -a '(unhang emulate --list 2>/dev/null | string replace -r " +" "\t")'
complete -c unhang -n '__fish_seen_subcommand_from knowledge' -a 'list show check match version update key export'

# fish completion for unhang. It asks the program itself, so it knows every command and option of the one that is installed.

# The command that is being typed; of knowledge its verb, too.
function __unhang_command
    set -l words (commandline -opc)
    if set -q words[2]; and string match -qr '^[a-z]' -- $words[2]
        echo $words[2]
        if test $words[2] = knowledge; and set -q words[3]; and string match -qr '^[a-z]' -- $words[3]
            echo $words[3]
        end
    end
end

# Each option of the command, with what its help says of it.
function __unhang_options
    unhang (__unhang_command) --list-options 2>/dev/null | awk 'BEGIN { FS = "\t" } $1 { print $1 "\t" $5 }'
end

# What completes the operands, where that is words.
function __unhang_operands
    unhang (__unhang_command) --list-options 2>/dev/null | awk 'BEGIN { FS = "\t" } $1 == "" && $2 == "" && $4 !~ /^[A-Z]*$/ { print $4 }' | string split ' '
end

complete -c unhang -n '__fish_use_subcommand' -a '(unhang --list-commands 2>/dev/null)'
complete -c unhang -n 'string match -q -- "-*" (commandline -ct)' -a '(__unhang_options)'
complete -c unhang -n 'not __fish_use_subcommand' -a '(__unhang_operands)'
complete -c unhang -n '__fish_seen_subcommand_from emulate' -a '(unhang emulate --list 2>/dev/null | string replace -r " +" "\t")'


# Repositories, snapshots and paths in them come from pleach itself.
function __pleach_words
    set -l tokens (commandline -opc) (commandline -ct)
    command pleach __complete fish -- $tokens[2..-1] 2>/dev/null
end

function __pleach_wants
    contains -- (__pleach_words)[1] $argv
end

function __pleach_candidates
    set -l found (__pleach_words)
    test "$found[1]" = directories; and __fish_complete_directories (commandline -ct) ''
    printf '%s\n' $found[2..-1]
end

# The value of an option takes other rules than words.
complete -c pleach -k -n '__fish_seen_subcommand_from snapshot' -l parent -x -a '(string replace -- --parent= "" (__pleach_candidates))'
complete -c pleach -k -n '__pleach_wants words directories paths' -f -a '(__pleach_candidates)'


# Repositories, snapshots and paths in them come from pleach itself.
_pleach_words() {
    local program=${COMP_WORDS[0]/#\~\//$HOME/} current=${COMP_WORDS[COMP_CWORD]}
    local -a found=()
    mapfile -t found < <("$program" __complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case ${found[0]} in
        words)
            # Where there is none, no file is one either.
            compopt +o bashdefault +o default 2>/dev/null
            COMPREPLY=("${found[@]:1}")
            ;;
        directories)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            COMPREPLY+=("${found[@]:1}")
            ;;
        paths)
            compopt -o filenames -o nospace 2>/dev/null
            COMPREPLY=("${found[@]:1}")
            ;;
        *)
            _pleach "$@"
            ;;
    esac
}

complete -F _pleach_words -o bashdefault -o default pleach

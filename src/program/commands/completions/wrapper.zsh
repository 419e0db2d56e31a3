
# Repositories, snapshots and paths in them come from pleach itself.
_pleach() {
    local program=${(Q)words[1]}
    local -a found
    found=("${(@f)$(${program/#\~\//$HOME/} __complete zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    case $found[1] in
        words)
            compadd -V snapshots -- "${(@)found[2,-1]}"
            ;;
        directories)
            (( $#found > 1 )) && compadd -V snapshots -- "${(@)found[2,-1]}"
            _files -/
            ;;
        paths)
            compadd -S '' -- "${(@)found[2,-1]}"
            ;;
        *)
            _pleach_static "$@"
            ;;
    esac
}

# Error processes on stock ns-2, shared by ft.tcl and web.tcl.  Expects global ns and proc mkrng {stream}.

# Two states with exponential sojourns and one bit error rate each; the rate is integrated over the time a frame
# occupies the channel, so a frame partly inside a bad period can be lost.  A stock ErrorModel decides while the
# channel is good; only frames that touch a bad period cost a Tcl call.  A Connector in front does the switching.
# Approximations: all frames are taken as `size` bytes (Tcl cannot see sizes), and of two bad periods less than one
# frame time apart only the later one counts for a frame that touches both (about 0.3 % of bad periods).
Class ErrorModel/BadPeriod -superclass ErrorModel/MultiState
ErrorModel/BadPeriod instproc init {} { $self next {} {} {} pkt pkt 0 "" }
ErrorModel/BadPeriod instproc corrupt {} {
  $self instvar rng_ lg_ lb_ txt_ bs_ be_
  global ns
  set now [$ns now]
  set from [expr {$now - $txt_ > $bs_ ? $now - $txt_ : $bs_}]
  set tb [expr {($now < $be_ ? $now : $be_) - $from}]
  if {$tb < 0} { set tb 0.0 }
  return [expr {[$rng_ uniform 0 1] >= exp($lg_*($txt_-$tb) + $lb_*$tb)}]
}
# Installs the process at the receiving end of the link a -> b.
proc two_state {rng meangood meanbad bergood berbad size a b} {
  global ns
  set bits [expr {8.0*$size}]; set txt [expr {$bits/64000.0}]
  set x [new Connector]; $ns link-lossmodel $x $a $b
  set m [new ErrorModel/BadPeriod]
  $m set rng_ $rng; $m set txt_ $txt; $m set mg_ $meangood; $m set mb_ $meanbad
  $m set lg_ [expr {log(1.0-$bergood)*64000}]; $m set lb_ [expr {log(1.0-$berbad)*64000}]
  set g [new ErrorModel]; $g unit pkt; $g set rate_ [expr {1.0 - exp(log(1.0-$bergood)*$bits)}]
  set u [new RandomVariable/Uniform]; $u set min_ 0; $u set max_ 1; $u use-rng $rng; $g ranvar $u
  foreach e [list $m $g] { $e target [$x target]; $e drop-target [new Agent/Null] }
  $m set x_ $x; $m set g_ $g
  if {[$rng uniform 0 1] < double($meanbad)/($meangood+$meanbad)} { two_state_bad $m 0.0 } else { two_state_good $m 0.0 }
}
proc two_state_bad {m start} {
  global ns
  $m instvar rng_ bs_ be_ mb_ txt_ x_
  set bs_ $start; set be_ [expr {$start + [$rng_ exponential]*$mb_}]
  $x_ target $m
  $ns at [expr {$be_ + $txt_}] "two_state_good $m $be_"
}
proc two_state_good {m start} {
  global ns
  $m instvar rng_ mg_ x_ g_
  set end [expr {$start + [$rng_ exponential]*$mg_}]
  $x_ target $g_
  set now [$ns now]
  $ns at [expr {$end > $now ? $end : $now}] "two_state_bad $m $end"
}

# Loses exactly the listed frames, counting every frame that arrives over the link from 1 (the SYN is frame 1).
Class ErrorModel/Listed -superclass ErrorModel/MultiState
ErrorModel/Listed instproc init {frames} {
  $self next {} {} {} pkt pkt 0 ""
  $self instvar count_ lost_
  set count_ 0
  foreach k $frames { set lost_($k) 1 }
}
ErrorModel/Listed instproc corrupt {} {
  $self instvar count_ lost_
  return [info exists lost_([incr count_])]
}
